"""One library with one thread count in this process: `worker.py LIBRARY THREADS SECONDS probe|bare [CASE...]` prints JSON.

Affinity and thread variables are set by run.py, before this process starts.
"""

import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cases import CASES
from libraries import LIBRARIES

PATIENCE = 2.0  # seconds after which fewer than 9 calls are enough
REPORTED_SIZES = [1 << 30, 8 << 20]  # bytes whose read speed is reported for the machine


def probe(threads, sizes):
    """FMA peak in GFLOP/s and read speed in GB/s for each size in bytes, by the C probe."""
    binary = Path(sys.executable).with_name("limits")
    out = subprocess.run([binary, str(threads), *map(str, sizes)], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def limits_beside(case, threads, probed, run):
    """Runs `run` between two probes -> (its result, the higher of the two, figure by figure)."""
    if not probed or not case.bytes:
        return run(), {"limit_ms": 0}
    before = probe(threads, [case.bytes])
    result = run()
    after = probe(threads, [case.bytes])
    fma = max(p["fma_gflops"] for p in (before, after))
    read = max(p["read"][str(case.bytes)] for p in (before, after))
    return result, {"fma_gflops": fma, "read_gbs": read, "limit_ms": case.limit_ms(fma, read)}


def repeated(call, times):
    for _ in range(times):
        call()


def samples(call, seconds):
    """Milliseconds a call. Short calls are timed in batches of about 0.2 ms; 9 to 2000 samples, and 3 at least of slow calls.

    A library that is not called from Python has its own loop, `call.many`.
    """
    many = getattr(call, "many", lambda times: repeated(call, times))
    call()
    start = time.perf_counter()
    warm = 0
    while warm < 2 or time.perf_counter() - start < seconds / 4:
        call()
        warm += 1
    batch = max(1, int(2e-4 / ((time.perf_counter() - start) / warm)))
    taken = []
    start = time.perf_counter()

    def more():
        passed = time.perf_counter() - start
        few = len(taken) < 3 or (len(taken) < 9 and passed < PATIENCE)
        return few or (len(taken) < 2000 and passed < seconds)

    while more():
        t = time.perf_counter_ns()
        many(batch)
        taken.append((time.perf_counter_ns() - t) / batch * 1e-6)
    return taken


def main():
    library, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    probed, names = sys.argv[4] == "probe", sys.argv[5:] or list(CASES)
    machine = probe(threads, REPORTED_SIZES) if probed else None
    version, make = LIBRARIES[library](threads)
    rows, failed = [], []
    for name in names:
        case = CASES[name]
        inputs = case.inputs()
        made = make(case.op, inputs)
        if made is None:
            continue
        call, to_numpy = made
        error = case.error(to_numpy(call()), inputs)
        if not error < 0.1:
            failed.append(f"{name}: relative error {error:.2g}")
            continue
        taken, limits = limits_beside(case, threads, probed, lambda: samples(call, seconds))
        tenths = statistics.quantiles(taken, n=10)
        row = {"case": name, "ms": tenths[4], "ms_p10": tenths[0], "ms_p90": tenths[8]} | limits
        rows.append(row | ({} if error <= case.tolerance else {"error": error}))
        del call, made, inputs
        gc.collect()
    json.dump({"version": version, "limits": machine, "rows": rows, "failed": failed}, sys.stdout)


main()
