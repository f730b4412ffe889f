#!/usr/bin/env python3
"""Writes the cases of `cases/*.txt`: inputs, attributes, outputs and gradients of every op, computed by PyTorch.

    python3 -m venv VENV && VENV/bin/pip install torch numpy
    VENV/bin/python tests/data/ops/generate.py

A case is

    case NAME key=value ...
    in DTYPE[EXTENTS] elements ...
    out DTYPE[EXTENTS] elements ...
    grad DTYPE[EXTENTS] elements ...

with one `grad` for each input of dtype `f` unless there are none (or for those that `@wrt` numbers). `f` stands for every floating dtype: inputs are exact in
bf16, outputs are computed in f64. A gradient is that of the sum of outputs times `cotangent(i)`. Attributes with a leading
`@` speak to the test: `@tol` multiplies the tolerance, `@only` names the floating dtypes that the case is for.
"""

import torch

from elements import binary, reduction, unary
from layers import attention, loss, norm
from places import indexed, shape
from products import convolution, linalg, pool
from writer import HERE

GROUPS = [unary, binary, reduction, shape, indexed, linalg, convolution, pool, norm, attention, loss]

if __name__ == "__main__":
    (HERE / "cases").mkdir(exist_ok=True)
    torch.manual_seed(0)
    for group in GROUPS:
        group()
