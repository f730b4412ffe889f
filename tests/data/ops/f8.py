"""Writes cases/f8.txt, which tests/tests/ops/f8.rs reads: floats of eight bits as ml_dtypes has them. Needs numpy and ml_dtypes.

    value DTYPE: the value of each of the 256 codes, as the bits of an f32
    f32 DTYPE: bits of an f32, and the code that it rounds to
    f64 DTYPE: bits of an f64, and the code. ml_dtypes rounds f64 to f32 first; where that gives another code, the code
        here is the nearest one by exact arithmetic
    i64 DTYPE: an integer, and the code, as for f64

A NaN is any NaN, and so is its code.
"""
import pathlib
import random
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np

FORMATS = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}


def values(dtype):
    return np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)


def codes(array, dtype):
    return np.asarray(array).astype(dtype).view(np.uint8)


def nearest(value, dtype):
    """The code nearest to an exact number, ties to even, by search."""
    finite = [(Fraction(float(x)), code) for code, x in enumerate(values(dtype)[:128]) if np.isfinite(x)]
    size, largest = abs(value), finite[-1]
    # What comes behind the largest number is as far from it as the one before.
    beyond = (2 * largest[0] - finite[-2][0], largest[1] + 1)
    _, code = min(((abs(size - x), code & 1), code) for x, code in [*finite, beyond])
    return code | (0x80 if value < 0 else 0)


def interesting(dtype):
    """Codes, what lies between neighbours, and their own neighbours in f32."""
    finite = [float(x) for x in values(dtype)[:128] if np.isfinite(x)]
    step = finite[-1] - finite[-2]
    finite += [finite[-1] + step, finite[-1] + 2 * step]
    ties = [(a + b) / 2 for a, b in zip(finite, finite[1:])]
    around = []
    for x in map(np.float32, finite + ties):
        around += [x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))]
    pick = random.Random(8)
    around += [np.float32(pick.uniform(-2, 2) * 2.0 ** pick.randint(-20, 18)) for _ in range(300)]
    tiny = [np.float32(x) for x in [1e-45, 1.1754944e-38, 1e-30, 1e30, 3.4028235e38, np.inf, np.nan]]
    return [x for y in [*around, *tiny] for x in (y, -y)]


def bits32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def bits64(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


lines = []
for name, dtype in FORMATS.items():
    lines.append(f"value {name} " + " ".join(f"{bits32(x):x}" for x in values(dtype)))
    singles = sorted(set(map(bits32, interesting(dtype))))
    rounded = codes(np.array(singles, dtype=np.uint32).view(np.float32), dtype)
    lines.append(f"f32 {name} " + " ".join(f"{x:x}:{code:x}" for x, code in zip(singles, rounded)))
    finite = [float(x) for x in values(dtype)[:128] if np.isfinite(x)]
    ties = [(a + b) / 2 for a, b in zip(finite, [*finite[1:], 2 * finite[-1] - finite[-2]])]
    doubles = [np.nextafter(x, to) for x in ties for to in (-np.inf, np.inf)] + ties
    doubles += [-x for x in doubles]
    exact = [nearest(Fraction(float(x)), dtype) for x in doubles]
    near = [x for x, code in zip(doubles, exact) if float(np.float32(x)) == x]
    assert list(codes(np.array(near), dtype)) == [nearest(Fraction(float(x)), dtype) for x in near]
    lines.append(f"f64 {name} " + " ".join(f"{bits64(x):x}:{code:x}" for x, code in zip(doubles, exact)))
    top = int(finite[-1])
    integers = [*range(-40, 41), top - 1, top, *range(top + 1, 2 * top, max(1, top // 64)), 2**31 - 1, 2**62, 2**63 - 1, -(2**63)]
    lines.append(f"i64 {name} " + " ".join(f"{x}:{nearest(Fraction(x), dtype):x}" for x in integers))
path = pathlib.Path(__file__).parent / "cases" / "f8.txt"
path.write_text("\n".join(lines) + "\n")
print(f"{path.name}: {path.stat().st_size} bytes")
