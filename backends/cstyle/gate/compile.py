"""Compiles CUDA sources with NVRTC and assembles them with ptxas; no GPU is needed.

usage: compile.py SOURCES SPILL_CEILING ARCH...

SOURCES holds *.cu and options.txt. The libraries are those of the wheels in this interpreter's environment: each ARCH is
`sm_80@12`, an architecture and the CUDA major version that compiles it. Ends with 1 when a source is refused or when a
kernel spills more bytes than the ceiling.
"""

import ctypes
import glob
import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor


def found(pattern):
    for folder in sys.path:
        for file in sorted(glob.glob(os.path.join(folder, "nvidia", "*", pattern))):
            yield file


def tools(major):
    """NVRTC and ptxas of one major version."""
    nvrtc = next(file for file in found(f"lib/libnvrtc.so.{major}"))
    # Wheels of CUDA 12 are one folder a package, those of 13 share one.
    shared = f"{os.sep}cu{major}{os.sep}"
    ptxas = next(file for file in found("bin/ptxas") if (shared in file) == (shared in nvrtc))
    return nvrtc, ptxas


def ptx(nvrtc, source, options):
    library = ctypes.CDLL(nvrtc)
    with open(source, "rb") as file:
        text = file.read()
    program = ctypes.c_void_p()
    if library.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None) != 0:
        return None, "nvrtcCreateProgram failed"
    arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    refused = library.nvrtcCompileProgram(program, len(options), arguments) != 0
    kind = "ProgramLog" if refused else "PTX"
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{kind}")(program, buffer)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return (None, buffer.value.decode()) if refused else (buffer.value, "")


def check(task):
    """Returns the source's name, what is wrong, the number of kernels, and the most spilled bytes with the kernel's name."""
    source, options, arch, major = task
    name = f"{os.path.basename(source)} for {arch} by CUDA {major}"
    nvrtc, ptxas = tools(major)
    flags = options + ["--disable-warnings", f"--gpu-architecture=compute_{arch[3:]}"]
    code, problem = ptx(nvrtc, source, flags)
    if code is None:
        return name, problem, 0, (0, "")
    file = f"{source}.{arch}.ptx"
    with open(file, "wb") as to:
        to.write(code)
    run = subprocess.run(
        [ptxas, "-v", f"-arch={arch}", file, "-o", os.devnull], capture_output=True, text=True, check=False
    )
    os.remove(file)
    if run.returncode != 0:
        return name, run.stderr, 0, (0, "")
    pattern = r"properties for (\S+)\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    spills = [(int(stores) + int(loads), kernel) for kernel, stores, loads in re.findall(pattern, run.stderr)]
    return name, "", len(spills), max(spills, default=(0, ""))


def main():
    folder, ceiling, arches = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with open(os.path.join(folder, "options.txt"), encoding="utf-8") as file:
        options = file.read().split()
    sources = sorted(glob.glob(os.path.join(folder, "*.cu")))
    tasks = [(source, options, *arch.split("@")) for source in sources for arch in arches]
    failed, kernels, worst = 0, 0, (0, "")
    with ProcessPoolExecutor() as pool:
        for name, problem, count, spilled in pool.map(check, tasks):
            kernels += count
            worst = max(worst, spilled)
            if problem or count == 0:
                failed += 1
                print(f"{name}: {problem or 'no kernel in it'}"[:3000])
            elif spilled[0] > ceiling:
                failed += 1
                print(f"{name}: {spilled[1]} spills {spilled[0]} bytes, the ceiling is {ceiling}")
    print(f"{len(tasks)} compilations, {kernels} kernels, most bytes spilled {worst[0]} {worst[1]}")
    sys.exit(1 if failed or not tasks else 0)


if __name__ == "__main__":
    main()
