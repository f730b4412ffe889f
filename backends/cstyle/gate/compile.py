"""Compiles CUDA sources to machine code with NVRTC, whose assembler is ptxas; no GPU is needed.

usage: compile.py SOURCES SPILL_CEILING ARCH...

SOURCES holds *.cu and options.txt. The libraries are those of the wheels in this interpreter's environment: each ARCH is
`sm_80@12`, an architecture and the CUDA major version that compiles it. Ends with 1 when a source is refused or when a
kernel spills more bytes than the ceiling.
"""

import ctypes
import glob
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor

SPILLS = re.compile(
    r"properties for (\S+)\s+ptxas\s+\.\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
KERNELS = re.compile(r"^TL_KERNEL void(?: __launch_bounds__\([\d, ]+\))? (\w+)\(", re.MULTILINE)


def nvrtc(major):
    """NVRTC of one major version."""
    for folder in sys.path:
        for file in sorted(glob.glob(os.path.join(folder, "nvidia", "*", f"lib/libnvrtc.so.{major}"))):
            return file
    raise FileNotFoundError(f"libnvrtc.so.{major}")


def compiled(library, source, options):
    """Whether the source compiles, and the compiler's log."""
    with open(source, "rb") as file:
        text = file.read()
    program = ctypes.c_void_p()
    if library.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None) != 0:
        return False, "nvrtcCreateProgram failed"
    arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    done = library.nvrtcCompileProgram(program, len(options), arguments) == 0
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    code = ctypes.c_size_t()
    if done:
        library.nvrtcGetCUBINSize(program, ctypes.byref(code))
        done = code.value > 0
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return done, log.value.decode()


def check(task):
    """Returns the source's name, what is wrong, the number of kernels, and the most spilled bytes with the kernel's name."""
    source, options, arch, major = task
    name = f"{os.path.basename(source)} for {arch} by CUDA {major}"
    flags = options + ["--disable-warnings", "--ptxas-options=-v", f"--gpu-architecture={arch}"]
    done, log = compiled(ctypes.CDLL(nvrtc(major)), source, flags)
    if not done:
        return name, log, 0, (0, "")
    # Functions that the compiler left out of line, such as the argument reduction of sin, are told of beside the kernels.
    spills = [(int(stores) + int(loads), function) for function, stores, loads in SPILLS.findall(log)]
    with open(source, encoding="utf-8") as file:
        kernels = KERNELS.findall(file.read())
    silent = set(kernels) - {function for _, function in spills}
    problem = f"the assembler tells nothing of {', '.join(sorted(silent))}" if silent else ""
    return name, problem, len(kernels), max(spills, default=(0, ""))


def main():
    folder, ceiling, arches = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with open(os.path.join(folder, "options.txt"), encoding="utf-8") as file:
        options = file.read().split()
    sources = sorted(glob.glob(os.path.join(folder, "*.cu")))
    tasks = [(source, options, *arch.split("@")) for source in sources for arch in arches]
    # Later files hold the larger programs: first, so that no core waits for the last of them.
    tasks.reverse()
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
