#!/usr/bin/env python3
"""Measures the peers and prints one table; see README.md beside this file.

Every library runs in a fresh process per thread count, and that process probes the machine's limits before and after
each case. Times are medians in milliseconds.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
LIBRARIES = ["numpy", "torch", "torch.compile", "jax", "onnxruntime", "candle", "burn"]
CRATES = ["candle", "burn"]  # in rust/
OURS = "thalweg"
# (vendor, family, model) as /proc/cpuinfo has them, for virtual machines whose model name says nothing
KNOWN_CPUS = {
    ("GenuineIntel", 6, 85): "cascade-lake",
    ("GenuineIntel", 6, 106): "ice-lake-sp",
    ("GenuineIntel", 6, 143): "sapphire-rapids",
    ("GenuineIntel", 6, 207): "emerald-rapids",
    ("GenuineIntel", 6, 173): "granite-rapids",
}
# variables that a shell may carry and that would change a library's threads or kernels
THREAD_PREFIXES = tuple(
    f"{name}_" for name in "OMP GOMP KMP MKL OPENBLAS XLA JAX ONEDNN NPY RAYON CANDLE MALLOC GLIBC".split()
)
AMD_FAMILIES = {23: "zen1-2", 25: "zen3-4", 26: "zen5"}


def cpu():
    """Short name of the CPU model, for file names."""
    info = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M))
    vendor, family, model = info.get("vendor_id", ""), int(info.get("cpu family", 0)), int(info.get("model", 0))
    known = KNOWN_CPUS.get((vendor, family, model)) or (AMD_FAMILIES.get(family) if "AMD" in vendor else None)
    if known is None and "amx_tile" in info.get("flags", "").split():
        known = "xeon-amx"  # some virtual machines have another model's number
    return known or re.sub(r"\W+", "-", re.sub(r"\(.*?\)|@.*", "", info.get("model name", "cpu")).lower()).strip("-")


def cores(threads):
    """The CPUs to run `threads` threads on: one hardware thread of each core first."""
    allowed, first, rest, seen = sorted(os.sched_getaffinity(0)), [], [], set()
    for n in allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list")
        core = topology.read_text() if topology.exists() else n
        (rest if core in seen else first).append(n)
        seen.add(core)
    if threads > len(allowed):
        sys.exit(f"run.py: {threads} threads asked for, {len(allowed)} CPUs allowed")
    return (first + rest)[:threads]


def environment(threads):
    """Thread settings of every library, nothing inherited; ONNX Runtime and torch get theirs in code as well."""
    n = str(threads)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(THREAD_PREFIXES)}
    return inherited | {f"{name}_NUM_THREADS": n for name in "OMP MKL OPENBLAS RAYON".split()} | {
        "NPROC": n,  # XLA's pool
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}",
        "JAX_PLATFORMS": "cpu",
        "TORCHINDUCTOR_CACHE_DIR": str(HERE / ".venv" / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


def work(library, threads, options):
    """One worker's answer, or the last line of its complaint."""
    python = HERE / ".venv" / "bin" / "python"
    probes = "probe" if options.limits else "bare"
    command = [*options.wrap, python, HERE / "worker.py", library, str(threads), str(options.seconds), probes, *options.cases]
    cpus = cores(threads)
    done = subprocess.run(
        command,
        env=environment(threads),
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(f"{library}, threads: {threads}, failed\n{done.stderr[-2000:]}", file=sys.stderr)
        return (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return json.loads(done.stdout)


def measure(options):
    """All workers, one after the other, as the stored form: limits and rows."""
    result = {"cpu": cpu(), "cores": os.cpu_count(), "limits": [], "rows": []}
    built = (HERE / ".venv" / "rust" / "release" / "libpeers.so").exists()
    libraries = [library for library in options.libraries if built or library not in CRATES]
    if libraries != options.libraries:
        print(f"left out: {', '.join(CRATES)}, which setup.sh builds where it finds cargo", file=sys.stderr)
    for threads in options.threads:
        for library in libraries:
            print(f"{library}, threads: {threads} …", file=sys.stderr)
            answer = work(library, threads, options)
            if isinstance(answer, str):
                result.setdefault("failed", []).append(f"{library}, threads {threads}: {answer}")
                continue
            for line in answer["failed"]:
                result.setdefault("failed", []).append(f"{library}, threads {threads}: {line}")
            who = {"threads": threads, "library": library, "version": answer["version"]}
            if options.limits:
                result["limits"].append(who | answer["limits"])
            for row in answer["rows"]:
                times = {key: float(f"{value:.4g}") for key, value in row.items() if key != "case"}
                result["rows"].append({"case": row["case"]} | who | times)
    return result


def digits(ms):
    """Three significant digits."""
    return f"{Decimal(f'{ms:.3g}'):f}" if ms < 100 else f"{ms:.0f}"


def table(result, ours):
    """Lines of cells: case, threads, library and version, median ms, % of the limit, ours / best peer."""
    lines = []
    cases = dict.fromkeys(r["case"] for r in result["rows"] + ours)  # in order
    keys = [(c, t) for c in cases for t in sorted({r["threads"] for r in result["rows"] + ours if r["case"] == c})]
    for case, threads in keys:
        peers = [r for r in result["rows"] if (r["case"], r["threads"]) == (case, threads)]
        peers.sort(key=lambda r: ("error" in r, r["ms"]))  # an inexact answer is no peer to beat
        mine = [r for r in ours if (r["case"], r["threads"]) == (case, threads)]
        for row in mine[:1]:
            # our run has no probe of its own: the limit is the median of the peers' probes
            limit = sorted(p["limit_ms"] for p in peers)[len(peers) // 2] if peers else None
            ratio = f"{row['ms'] / peers[0]['ms']:.2f}" if peers else ""
            lines.append((case, threads, OURS, row["ms"], limit, ratio))
        for p in peers:
            inexact = f" (off by {p['error']:.0e})" if "error" in p else ""
            lines.append((case, threads, f"{p['library']} {p['version']}{inexact}", p["ms"], p["limit_ms"], ""))
    head = ["case", "threads", "library", "ms", "% of limit"] + (["ours / best"] if ours else [])
    cells = [
        [case, str(threads), who, digits(ms), f"{100 * limit / ms:.0f}" if limit else "", ratio]
        for case, threads, who, ms, limit, ratio in lines
    ]
    return [head] + [line[: len(head)] for line in cells]


def limits_table(result):
    """One line per thread count: the median over the workers of what each probed, and the lowest and highest."""
    lines = [["threads", "f32 FMA GFLOP/s", "read 1 GiB GB/s", "read 8 MiB GB/s"]]
    for threads in sorted({probe["threads"] for probe in result["limits"]}):
        probes = [probe for probe in result["limits"] if probe["threads"] == threads]
        columns = [[p["fma_gflops"] for p in probes]]
        columns += [[p["read"][size] for p in probes] for size in (str(1 << 30), str(8 << 20))]
        spans = [sorted(column) for column in columns]
        lines.append([str(threads)] + [f"{s[len(s) // 2]:.0f} ({s[0]:.0f}–{s[-1]:.0f})" if s else "" for s in spans])
    return lines


def aligned(lines):
    """A Markdown table whose columns also line up as plain text."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    rows = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths)) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *rows[1:]])


def report(result, ours):
    """The page: limits, then cases, the fastest peer first."""
    return (
        f"# Peers on {result['cpu']}, {result['cores']} cores\n\n"
        f"{aligned(limits_table(result))}\n\nMedian over the processes (lowest–highest).\n\n"
        f"{aligned(table(result, ours))}\n\nMedians; benches/peers/README.md says what the columns mean.\n"
    )


def stored(result):
    """JSON with one line per probe and per row."""
    keys = [key for key in ("limits", "rows", "failed") if key in result]
    lists = {key: ",\n".join(f"    {json.dumps(line)}" for line in result[key]) for key in keys}
    head = f'  "cpu": {json.dumps(result["cpu"])},\n  "cores": {result["cores"]},\n'
    return "{\n" + head + ",\n".join(f'  "{key}": [\n{text}\n  ]' for key, text in lists.items()) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    csv = lambda text: text.split(",")
    parser.add_argument("--threads", type=lambda s: [int(n) for n in s.split(",")], default=[1, 2], help="default 1,2")
    parser.add_argument("--cases", type=csv, default=[], help="comma-separated, as in cases.py; default all")
    parser.add_argument("--libraries", type=csv, default=LIBRARIES, help=f"default {','.join(LIBRARIES)}")
    parser.add_argument("--seconds", type=float, default=1.0, help="of repetition for each case, default 1")
    parser.add_argument("--no-limits", dest="limits", action="store_false", help="leave out the probes of the machine's limits")
    parser.add_argument("--wrap", type=shlex.split, default=[], help="command before each worker, e.g. 'numactl -m0'")
    parser.add_argument("--from", dest="stored", type=Path, help="show this stored result, measure nothing")
    parser.add_argument("--ours", type=Path, help="JSON list of {case, threads, ms} to put beside the peers")
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--save", action="store_true", help="write benches/results/peers-<cpu>.json and .md")
    parser.add_argument("--cpu", action="store_true", help="print the name of this model of processor, measure nothing")
    options = parser.parse_args()
    if options.cpu:
        return print(cpu())

    result = json.loads(options.stored.read_text()) if options.stored else measure(options)
    ours = json.loads(options.ours.read_text()) if options.ours else []
    page = report(result, ours)
    print(page)
    outputs = [options.json] if options.json else []
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        outputs.append(RESULTS / f"peers-{result['cpu']}.json")
        (RESULTS / f"peers-{result['cpu']}.md").write_text(report(result, []))
    for path in outputs:
        path.write_text(stored(result))


main()
