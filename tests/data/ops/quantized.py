#!/usr/bin/env python3
"""Writes cases/quantized.txt in the form of generate.py: integers that stand for real numbers, as ONNX Runtime computes them.

    python3 -m venv VENV && VENV/bin/pip install torch numpy onnx onnxruntime
    VENV/bin/python tests/data/ops/quantized.py
"""

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import helper

from writer import INF, Writer

KINDS = {torch.uint8: np.uint8, torch.int8: np.int8, torch.uint16: np.uint16, torch.int16: np.int16}


def run(op, inputs, outputs, **attributes):
    """The outputs of a model of one node; an input may be absent."""
    arrays = [None if x is None else x.numpy() for x in inputs]
    names = ["" if x is None else f"i{at}" for at, x in enumerate(arrays)]
    results = [f"o{at}" for at in range(outputs)]
    kind = helper.np_dtype_to_tensor_dtype
    given = [helper.make_tensor_value_info(n, kind(x.dtype), x.shape) for n, x in zip(names, arrays) if n]
    graph = helper.make_graph([helper.make_node(op, names, results, **attributes)], "one", given,
                              [onnx.ValueInfoProto(name=name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {n: x for n, x in zip(names, arrays) if n})
    return [torch.from_numpy(np.asarray(x)) for x in found]


def product(a, b, *zeros):
    """Exact, in 64 bits: ONNX Runtime has not every pair of dtypes."""
    a, b = a.long(), b.long()
    if len(zeros) > 0:
        a = a - zeros[0].long()
    if len(zeros) > 1:
        b = b - zeros[1].long()
    return (a @ b).to(torch.int32)


def convolution(x, w, *zeros, **options):
    """Exact in f64; padding stands for 0."""
    x, w = x.double(), w.double()
    if len(zeros) > 0:
        x = x - zeros[0].double()
    if len(zeros) > 1:
        w = w - zeros[1].double().reshape(-1, *[1] * (w.ndim - 1))
    call = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[w.ndim - 2]
    return call(x, w, **options).to(torch.int32)


def main():
    w = Writer("quantized")
    f32 = lambda *values: torch.tensor(values, dtype=torch.float32)
    byte = lambda dtype, *shape: w.i(*shape, low=0 if dtype == torch.uint8 else -128, high=255 if dtype == torch.uint8 else 127, dtype=dtype)
    dtypes = [torch.uint8, torch.int8]
    for a in dtypes:
        for b in dtypes:
            for x, y in [([2, 3], [3, 2]), ([1, 9], [9, 5]), ([2, 4, 5], [5, 3]), ([3, 2, 4], [3, 4, 2]), ([5, 33], [33, 7])]:
                w.case("matmul_integer", product, [byte(a, *x), byte(b, *y)])
            w.case("matmul_integer", product, [byte(a, 3, 6), byte(b, 6, 4), byte(a, 1).reshape(())])
            w.case("matmul_integer", product, [byte(a, 3, 6), byte(b, 6, 4), byte(a, 3, 1), byte(b, 4)])
            w.case("matmul_integer", product, [byte(a, 2, 3, 6), byte(b, 6, 4), byte(a, 2, 3, 1), byte(b, 1, 4)])
            for shape, weight, options in [([2, 3, 5, 6], [4, 3, 3, 2], dict(stride=2, padding=1)), ([4, 5, 5], [2, 2, 3, 3], dict(groups=2, dilation=2)),
                                           ([1, 2, 9], [3, 2, 4], dict(padding=2)), ([1, 2, 4, 3, 5], [2, 2, 2, 1, 3], dict(padding=1)),
                                           ([2, 6, 3, 3], [4, 6, 1, 1], {})]:
                for zeros in [[], [w.i(low=0, high=99, dtype=a)], [w.i(low=0, high=99, dtype=a), w.i(weight[0], low=0, high=99, dtype=b)]]:
                    call = lambda x, y, *z, o=options: convolution(x, y, *z, **o)
                    w.case("conv_integer", call, [byte(a, *shape), byte(b, *weight), *zeros], **options)
    ties = [k / 4 for k in range(-9, 10)] + [63.25, 63.75, 64.0, -64.0, -64.25, -64.5, 127.25, 127.75, 1e9, -1e9, INF, -INF]
    for dtype in KINDS:
        zero = torch.tensor(3, dtype=dtype)
        name = str(dtype).replace("torch.uint", "u").replace("torch.int", "i")
        with_zero = lambda x, s, z: run("QuantizeLinear", [x, s, z], 1)[0]
        w.case("quantize", with_zero, [f32(*ties), torch.tensor(0.5, dtype=torch.float32), zero], grad=False, dtype=name)
        rows = w.f(3, 8).float()
        by_row = lambda x, s, z: run("QuantizeLinear", [x, s.reshape(-1), z.reshape(-1)], 1, axis=0)[0]
        scale, zeros = f32(0.01, 0.3, 1.7).reshape(3, 1), torch.tensor([0, 9, 100], dtype=dtype).reshape(3, 1)
        w.case("quantize", by_row, [rows, scale, zeros], grad=False, dtype=name)
        blocks = lambda x, s: run("QuantizeLinear", [x, s, torch.zeros_like(s).to(dtype)], 1, axis=1, block_size=4)[0]
        w.case("quantize", blocks, [rows, f32(0.01, 0.02, 0.03, 0.04, 0.5, 0.6).reshape(3, 2)], grad=False, dtype=name)
        q = w.i(3, 8, low=0, high=127, dtype=dtype)
        back = lambda x, s, z: run("DequantizeLinear", [x, s, z], 1)[0]
        w.case("dequantize", back, [q, torch.tensor(0.37, dtype=torch.float32), zero], grad=False)
        back_rows = lambda x, s, z: run("DequantizeLinear", [x, s.reshape(-1), z.reshape(-1)], 1, axis=0)[0]
        w.case("dequantize", back_rows, [q, scale, zeros], grad=False)
        back_blocks = lambda x, s: run("DequantizeLinear", [x, s], 1, axis=1, block_size=4)[0]
        w.case("dequantize", back_blocks, [q, f32(0.01, 0.02, 0.03, 0.04, 0.5, 0.6).reshape(3, 2)], grad=False)
    w.case("dequantize", lambda x, s: run("DequantizeLinear", [x, s], 1)[0],
           [torch.tensor([2**31 - 1, -(2**31), 7], dtype=torch.int32), torch.tensor(0.25, dtype=torch.float32)], grad=False)
    for x in [w.f(4, 5).float(), w.f(6, low=1, high=2).float(), w.f(6, low=-2, high=-1).float(), torch.zeros(3), f32(-1.0, 0.37, 2.6)]:
        w.case("quantize_dynamic", lambda x: run("DynamicQuantizeLinear", [x], 3), [x], grad=False)
    w.write()


if __name__ == "__main__":
    main()
