"""Writes arrays.npz, which the tests of core/src/interchange read. Needs numpy and ml_dtypes."""
import io
import pathlib
import ml_dtypes
import numpy as np

arrays = {}
count = np.arange(6)
for order in "<>":
    for kind in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]:
        start = {"f": (count - 2) * 0.5, "i": count - 2, "u": count}[kind[0]]
        name = ("little" if order == "<" else "big") + "_" + kind
        arrays[name] = start.astype(order + kind).reshape(2, 3)
arrays["bool"] = (count % 2 == 1).reshape(2, 3)
arrays["bf16"] = ((count - 2) * 0.5).astype(ml_dtypes.bfloat16).reshape(2, 3)
arrays["fortran"] = np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4))
arrays["fortran_big"] = np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3))
arrays["scalar"] = np.array(3.5)
arrays["empty"] = np.zeros((0, 3), dtype="<f4")
arrays["line"] = np.array([1, 2, 3], dtype="<i8")
arrays["special"] = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324], dtype="<f8")
arrays["complex"] = np.zeros(2, dtype="<c8")
arrays["text"] = np.array(["a", "bc"])
arrays["record"] = np.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")])
arrays["nine"] = np.zeros((1,) * 9, dtype="<f4")
for version in [(2, 0), (3, 0)]:
    file = io.BytesIO()
    np.lib.format.write_array(file, arrays["line"], version=version)
    arrays[f"version{version[0]}"] = np.frombuffer(file.getvalue(), dtype="u1")
here = pathlib.Path(__file__).parent
np.savez_compressed(here / "arrays.npz", **arrays)
