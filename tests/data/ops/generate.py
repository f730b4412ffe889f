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

import itertools
import math
import pathlib
import random

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
NAMES = {
    torch.float64: "f", torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.bool: "bool", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
}
NAN, INF = math.nan, math.inf


def cotangent(i):
    """The weight of element i of an output in the sum whose gradient is taken."""
    return (i * 7 % 11 - 5) / 8


class Writer:
    def __init__(self, name):
        self.name, self.lines, self.random = name, [], random.Random(name)

    def f(self, *shape, low=-3.0, high=3.0, distinct=False):
        """Floats that every dtype holds exactly: multiples of 1/16."""
        count = math.prod(shape)
        choices = range(math.ceil(low * 16), math.floor(high * 16) + 1)
        picked = self.random.sample(choices, count) if distinct else [self.random.choice(choices) for _ in range(count)]
        return torch.tensor([k / 16 for k in picked], dtype=torch.float64).reshape(shape)

    def i(self, *shape, low=-9, high=9, dtype=torch.int32):
        values = [self.random.randint(low, high) for _ in range(math.prod(shape))]
        return torch.tensor(values, dtype=dtype).reshape(shape)

    def b(self, *shape):
        return torch.tensor([self.random.random() < 0.5 for _ in range(math.prod(shape))], dtype=torch.bool).reshape(shape)

    def case(self, name, call, inputs, grad=True, wrt=None, **attributes):
        """Adds a case; `call` maps the inputs to the expected output or outputs, `wrt` are the inputs with gradients."""
        attributes = {key.replace("at_", "@"): value for key, value in attributes.items() if value is not None}
        inputs = list(inputs)
        floats = [x.dtype == torch.float64 and (wrt is None or at in wrt) for at, x in enumerate(inputs)]
        if grad and wrt is not None:
            attributes["@wrt"] = wrt
        grad = grad and any(floats)
        leaves = [x.clone().requires_grad_(grad and is_float) for x, is_float in zip(inputs, floats)]
        outputs = call(*leaves)
        outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        header = " ".join([f"case {name}", *(f"{key}={text(value)}" for key, value in attributes.items())])
        self.lines.append(header)
        self.lines += [f"in {tensor(x)}" for x in inputs]
        self.lines += [f"out {tensor(x.detach())}" for x in outputs]
        smooth = [x for x in outputs if x.requires_grad]
        if grad and smooth:
            total = sum(
                (x * torch.tensor([cotangent(i) for i in range(x.numel())], dtype=x.dtype).reshape(x.shape)).sum()
                for x in smooth
            )
            wanted = [x for x in leaves if x.requires_grad]
            found = torch.autograd.grad(total, wanted, allow_unused=True)
            self.lines += [
                f"grad {tensor(torch.zeros_like(x) if g is None else g)}" for x, g in zip(wanted, found)
            ]

    def write(self):
        path = HERE / "cases" / f"{self.name}.txt"
        path.write_text("\n".join(self.lines) + "\n")
        count = sum(line.startswith("case ") for line in self.lines)
        print(f"{self.name}: {count} cases, {path.stat().st_size} bytes")


def text(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(text(item) for item in value)
    return number(value) if isinstance(value, float) else str(value)


def number(value):
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.12g}"


def tensor(x):
    x = x.detach().resolve_neg()
    shape = ",".join(str(extent) for extent in x.shape)
    if x.dtype.is_floating_point:
        elements = [number(value) for value in x.double().flatten().tolist()]
    else:
        elements = [str(int(value)) for value in x.flatten().tolist()]
    return " ".join([f"{NAMES[x.dtype]}[{shape}]", *elements])


def to(dtype):
    return getattr(torch, {"f64": "float64", "f32": "float32"}.get(dtype, dtype))


def linalg():
    w = Writer("linalg")
    f, i = w.f, w.i
    for a, b in [([4], [4]), ([3], [3, 2]), ([2, 3], [3]), ([2, 3], [3, 4]), ([2, 3, 4], [4, 2]), ([4], [2, 4, 3]),
                 ([2, 3, 4], [4]), ([2, 3, 4], [2, 4, 5]), ([2, 1, 2, 3], [3, 3, 2]), ([1, 1], [1, 1]), ([33, 17], [17, 9])]:
        w.case("matmul", torch.matmul, [f(*a), f(*b)], at_tol=4)
    w.case("matmul", torch.matmul, [f(2, 0), f(0, 3)])
    w.case("matmul", torch.matmul, [f(0, 2), f(2, 3)])
    w.case("matmul", torch.matmul, [f(0), f(0)])
    w.case("matmul", torch.matmul, [torch.tensor([[NAN, 1.0], [INF, 0.0]], dtype=torch.float64), f(2, 2, low=1)], grad=False)
    for dtype in [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]:
        low = 0 if dtype == torch.uint8 else -9
        w.case("matmul", torch.matmul, [i(2, 3, low=low, dtype=dtype), i(3, 2, low=low, dtype=dtype)])
    w.case("matmul", torch.matmul, [i(2, 3, low=99, high=127, dtype=torch.int8), i(3, 2, low=99, high=127, dtype=torch.int8)])
    w.case("bmm", torch.bmm, [f(3, 2, 4), f(3, 4, 2)], at_tol=4)
    for name, call in [("dot", torch.dot), ("vdot", torch.vdot)]:
        w.case(name, call, [f(5), f(5)], at_tol=4)
        w.case(name, call, [i(5), i(5)])
        w.case(name, call, [f(0), f(0)])
    w.case("outer", torch.outer, [f(3), f(4)])
    w.case("outer", torch.outer, [i(3), i(2)])
    w.case("linear", F.linear, [f(2, 3), f(4, 3), f(4)], at_tol=4)
    w.case("linear", F.linear, [f(2, 2, 3), f(4, 3)], at_tol=4)
    w.case("linear", F.linear, [f(3), f(2, 3), f(2)], at_tol=4)
    for beta, alpha in [(1.0, 1.0), (0.5, -2.0), (0.0, 1.0)]:
        w.case("addmm", lambda c, a, b, x=beta, y=alpha: torch.addmm(c, a, b, beta=x, alpha=y), [f(2, 4), f(2, 3), f(3, 4)],
               beta=beta, alpha=alpha, at_tol=8)
    w.case("addmm", lambda c, a, b: torch.addmm(c, a, b), [f(4), f(2, 3), f(3, 4)], beta=1.0, alpha=1.0, at_tol=8)
    w.case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), [i(2, 2), i(2, 3), i(3, 2)], beta=2.0, alpha=3.0)
    for axis, shape in [(-1, [4, 3]), (0, [3, 2]), (1, [2, 3, 2])]:
        w.case("cross", lambda a, b, d=axis: torch.linalg.cross(a, b, dim=d), [f(*shape), f(*shape)], axis=axis, at_tol=4)
    w.case("cross", lambda a, b: torch.linalg.cross(a, b, dim=-1), [f(1, 3), f(4, 3)], axis=-1, at_tol=4)
    for ours, theirs, a, b in [([1], [0], [2, 3], [3, 4]), ([0, 2], [1, 0], [2, 3, 4], [4, 2, 5]), ([], [], [2], [3]),
                               ([-1, -2], [0, 1], [2, 3, 4], [4, 3])]:
        w.case("tensordot", lambda x, y, m=ours, n=theirs: torch.tensordot(x, y, dims=(m, n)), [f(*a), f(*b)],
               a=ours, b=theirs, at_tol=4)
    for equation, *shapes in [
        ("ij,jk->ik", [2, 3], [3, 4]), ("ij,jk", [2, 3], [3, 4]), ("ij->ji", [2, 3]), ("ba", [2, 3]), ("ii->i", [3, 3]),
        ("ii", [3, 3]), ("ij->", [2, 3]), ("ij->j", [2, 3]), ("i,i->", [4], [4]), ("i,j->ij", [3], [2]), ("ij,ij->ij", [2, 3], [2, 3]),
        ("bij,bjk->bik", [2, 3, 4], [2, 4, 2]), ("bhid,bhjd->bhij", [2, 2, 3, 4], [2, 2, 5, 4]), ("...ij,...jk->...ik", [2, 2, 3], [2, 3, 2]),
        ("...ij,jk->...ik", [2, 3, 2, 3], [3, 2]), ("i...,...j", [2, 3], [3, 4]), ("ij,jk,kl->il", [2, 3], [3, 4], [4, 2]),
        ("ij,jk,kl,lm->im", [2, 3], [3, 2], [2, 4], [4, 3]), ("iij->ij", [3, 3, 2]), ("iji,j->i", [3, 2, 3], [2]), ("ijkl->il", [2, 3, 2, 2]),
        ("bi,bij,bj->b", [2, 3], [2, 3, 4], [2, 4]), ("ij,kj->ik", [2, 3], [4, 3]), ("ij,ik->jk", [3, 2], [3, 4]), ("ai,bi,ci->abc", [2, 3], [2, 3], [2, 3]),
        ("bi,bi->b", [2, 3], [2, 3]), ("bi,bij->bj", [2, 3], [2, 3, 4]), ("ab,ba->", [2, 3], [3, 2]), ("i,->i", [3], []), ("...->...", [2, 3]),
        ("...ii->...i", [2, 3, 3]), ("ij,j->i", [1, 3], [3]), ("aB", [2, 3]), ("bij,bkj->bik", [2, 3, 4], [1, 5, 4]), ("ijk,jil->kl", [2, 3, 4], [3, 2, 5]),
        ("i,i,i->i", [3], [3], [3]), ("ij,jk->ik", [2, 0], [0, 3]), ("...ij->...", [2, 2, 3]), ("abc,cd,db->ad", [2, 3, 2], [2, 4], [4, 3]),
    ]:
        w.case("einsum", lambda *x, e=equation: torch.einsum(e, *x), [f(*shape) for shape in shapes], equation=equation, at_tol=16)
    w.case("einsum", lambda *x: torch.einsum("ij,jk->ik", *x), [i(2, 3), i(3, 2)], equation="ij,jk->ik")
    w.case("einsum", lambda *x: torch.einsum("ii->i", *x), [i(3, 3)], equation="ii->i")
    for n, k, batch, upper, unit in [(1, 1, [], False, False), (2, 3, [], False, False), (5, 2, [], True, False), (4, 1, [2], False, True),
                                     (7, 3, [2], True, True), (8, 2, [], False, False), (17, 2, [], False, False)]:
        a = f(*batch, n, n, low=-1, high=1) / 4
        a = a + torch.diag_embed(f(*batch, n, low=1, high=2))
        w.case("solve_triangular", lambda a, b, u=upper, t=unit: torch.linalg.solve_triangular(a, b, upper=u, unitriangular=t),
               [a, f(*batch, n, k)], upper=upper, unit=unit, at_tol=64, at_only="f64,f32")
    w.case("solve_triangular", lambda a, b: torch.linalg.solve_triangular(a, b, upper=False), [torch.eye(3, dtype=torch.float64), f(2, 3, 1)],
           upper=False, unit=False, at_tol=16)
    w.write()


def convolution():
    w = Writer("convolution")
    f = lambda *shape: w.f(*shape, low=-1.5, high=1.5)
    calls = {1: (F.conv1d, F.conv_transpose1d), 2: (F.conv2d, F.conv_transpose2d), 3: (F.conv3d, F.conv_transpose3d)}
    for axes, x, weight, bias, options in [
        (1, [2, 2, 8], [3, 2, 3], True, {}),
        (1, [2, 8], [3, 2, 3], True, {"padding": 1}),
        (1, [1, 4, 9], [4, 2, 3], False, {"stride": 2, "groups": 2, "dilation": 2, "padding": 2}),
        (1, [1, 2, 7], [2, 2, 4], True, {"padding": "same"}),
        (1, [1, 2, 7], [2, 2, 3], True, {"padding": "valid"}),
        (2, [2, 3, 5, 5], [4, 3, 3, 3], True, {"padding": "same"}),
        (2, [1, 2, 6, 5], [3, 2, 3, 2], True, {}),
        (2, [1, 2, 6, 5], [3, 2, 3, 2], False, {"stride": [2, 1], "padding": [1, 0]}),
        (2, [2, 6, 6], [3, 2, 3, 3], True, {"dilation": [2, 1], "padding": 2}),
        (2, [1, 4, 5, 5], [4, 1, 3, 3], True, {"groups": 4, "padding": 1}),
        (2, [1, 4, 4, 4], [6, 2, 1, 1], True, {"groups": 2}),
        (2, [1, 2, 5, 6], [2, 2, 2, 4], True, {"padding": "same"}),
        (2, [1, 2, 7, 7], [2, 2, 3, 3], True, {"stride": 3, "padding": 1}),
        (2, [0, 2, 4, 4], [3, 2, 3, 3], True, {}),
        (2, [1, 3, 9, 9], [8, 3, 7, 7], False, {"stride": 2, "padding": 3}),
        (3, [1, 2, 4, 4, 3], [2, 2, 2, 3, 2], True, {}),
        (3, [1, 2, 4, 5, 4], [2, 1, 3, 3, 3], False, {"groups": 2, "padding": 1, "stride": [1, 2, 1]}),
        (3, [2, 3, 3, 3], [2, 2, 2, 2, 2], True, {"dilation": 1, "padding": [1, 0, 1]}),
    ]:
        inputs = [f(*x), f(*weight)] + ([f(weight[0])] if bias else [])
        w.case(f"conv{axes}d", lambda *t, c=calls[axes][0], o=options: c(*t, **o), inputs, at_tol=16, **options)
    for axes, x, weight, bias, options in [
        (1, [2, 3, 4], [3, 2, 3], True, {}),
        (1, [3, 4], [3, 2, 3], True, {"stride": 2, "padding": 1, "output_padding": 1}),
        (1, [1, 4, 5], [4, 2, 3], False, {"stride": 3, "groups": 2, "dilation": 2}),
        (1, [1, 2, 4], [2, 2, 2], True, {"stride": 1, "dilation": 3, "output_padding": 2}),
        (1, [1, 2, 4], [2, 2, 2], True, {"stride": 3, "output_padding": 2, "padding": 1}),
        (2, [1, 2, 3, 3], [2, 3, 3, 3], True, {"stride": 2, "padding": 1, "output_padding": 1}),
        (2, [2, 3, 4], [2, 3, 2, 3], False, {"stride": [2, 1], "padding": [0, 1]}),
        (2, [1, 4, 3, 3], [4, 1, 2, 2], True, {"groups": 4, "stride": 2}),
        (2, [1, 2, 3, 3], [2, 2, 2, 2], True, {"stride": 2, "output_padding": [1, 0]}),
        (3, [1, 2, 2, 3, 2], [2, 2, 2, 2, 2], True, {"stride": 2}),
        (3, [2, 2, 2, 2], [2, 1, 2, 3, 2], False, {"padding": [0, 1, 0], "stride": [1, 2, 1], "output_padding": [0, 1, 0]}),
    ]:
        groups = options.get("groups", 1)
        inputs = [f(*x), f(*weight)] + ([f(weight[1] * groups)] if bias else [])
        w.case(f"conv_transpose{axes}d", lambda *t, c=calls[axes][1], o=options: c(*t, **o), inputs, at_tol=16, **options)
    for x, options in [([1, 2, 4, 5], {"kernel_size": [2, 3]}), ([2, 1, 5, 5], {"kernel_size": 3, "stride": 2, "padding": 1}),
                       ([1, 1, 6, 6], {"kernel_size": 2, "dilation": [2, 3], "stride": [1, 2]})]:
        w.case("unfold2d", lambda t, o=options: F.unfold(t, **o), [f(*x)], **options)
    for x, space, options in [([1, 12, 6], [3, 4], {"kernel_size": [2, 2]}), ([2, 9, 9], [5, 5], {"kernel_size": 3, "stride": 2, "padding": 1}),
                              ([1, 8, 10], [6, 6], {"kernel_size": 2, "dilation": [2, 1], "stride": [1, 2]}),
                              ([1, 4, 4], [4, 5], {"kernel_size": 2, "stride": [2, 3]})]:
        if options.get("dilation"):
            x = [1, 8, 4 * 3]
        w.case("fold2d", lambda t, s=space, o=options: F.fold(t, s, **o), [f(*x)], space=space, at_tol=8, **options)
    w.case("pixel_shuffle", lambda t: F.pixel_shuffle(t, 2), [f(1, 8, 2, 3)], factor=2)
    w.case("pixel_shuffle", lambda t: F.pixel_shuffle(t, 3), [f(9, 2, 2)], factor=3)
    w.case("pixel_unshuffle", lambda t: F.pixel_unshuffle(t, 2), [f(2, 1, 4, 6)], factor=2)
    w.case("channel_shuffle", lambda t: F.channel_shuffle(t, 2), [f(1, 6, 2, 2)], factor=2)
    w.case("channel_shuffle", lambda t: F.channel_shuffle(t, 3), [f(2, 6, 2)], factor=3)
    for mode, align, shapes in [
        ("nearest", None, [([1, 2, 5], [3]), ([1, 2, 3], [7]), ([1, 1, 3, 4], [5, 6]), ([1, 1, 2, 3, 2], [3, 2, 4]), ([1, 1, 6, 6], [3, 2])]),
        ("nearest-exact", None, [([1, 2, 5], [3]), ([1, 2, 3], [7]), ([1, 1, 3, 4], [5, 6])]),
        ("linear", False, [([1, 2, 5], [3]), ([1, 2, 3], [7]), ([1, 1, 4], [1])]), ("linear", True, [([1, 2, 5], [3]), ([1, 2, 3], [7]), ([1, 1, 4], [1])]),
        ("bilinear", False, [([1, 2, 3, 4], [6, 5]), ([1, 1, 6, 5], [3, 2])]), ("bilinear", True, [([1, 2, 3, 4], [6, 5]), ([1, 1, 6, 5], [3, 2])]),
        ("trilinear", False, [([1, 1, 2, 3, 2], [4, 2, 3])]), ("trilinear", True, [([1, 1, 2, 3, 2], [4, 2, 3])]),
        ("bicubic", False, [([1, 2, 4, 3], [6, 7]), ([1, 1, 6, 6], [3, 4])]), ("bicubic", True, [([1, 2, 4, 3], [6, 7])]),
        ("area", None, [([1, 2, 7], [3]), ([1, 1, 4, 5], [2, 3])]),
    ]:
        for x, size in shapes:
            w.case("interpolate", lambda t, s=size, m=mode, a=align: F.interpolate(t, size=s, mode=m, align_corners=a), [f(*x)],
                   size=size, mode=mode, align=align, at_tol=16)
    for mode, align, x, factor in [("nearest", None, [1, 1, 3, 4], 2.5), ("linear", False, [1, 1, 5], 1.7), ("bilinear", False, [1, 1, 4, 4], 0.6),
                                   ("bicubic", False, [1, 1, 3, 3], 1.5), ("bilinear", True, [1, 1, 4, 4], 1.6)]:
        w.case("interpolate", lambda t, s=factor, m=mode, a=align: F.interpolate(t, scale_factor=s, mode=m, align_corners=a), [f(*x)],
               factor=factor, mode=mode, align=align, at_tol=16)
    w.write()


def pool():
    w = Writer("pool")
    maxima = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
    means = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
    shapes = {1: [2, 2, 9], 2: [1, 2, 7, 6], 3: [1, 1, 4, 5, 4]}
    for axes in [1, 2, 3]:
        for options in [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2, "stride": 3, "ceil_mode": True},
                        {"kernel_size": 2, "dilation": 2, "stride": 1, "padding": 1}, {"kernel_size": [3, 2, 2][:axes], "stride": [2, 1, 2][:axes]},
                        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}]:
            x = w.f(*shapes[axes], distinct=axes < 3, low=-8, high=8) if axes < 3 else w.f(*shapes[axes], distinct=True, low=-8, high=8)
            w.case(f"max_pool{axes}d", lambda t, o=options, c=maxima[axes]: c(t, **o), [x], **options)
        for options in [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2, "stride": 3, "ceil_mode": True},
                        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
                        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
                        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}]:
            w.case(f"avg_pool{axes}d", lambda t, o=options, c=means[axes]: c(t, **o), [w.f(*shapes[axes])], at_tol=8, **options)
    w.case("avg_pool2d", lambda t: F.avg_pool2d(t, 2, divisor_override=3), [w.f(1, 1, 4, 4)], kernel_size=2, divisor_override=3, at_tol=8)
    w.case("max_pool2d", lambda t: F.max_pool2d(t, 2), [w.f(2, 4, 4, distinct=True)], kernel_size=2)
    w.case("max_pool2d", lambda t: F.max_pool2d(t, 2, padding=1), [torch.tensor([[[NAN, 1, -INF], [2, -INF, 3], [0, 4, INF]]], dtype=torch.float64)],
           grad=False, kernel_size=2, padding=1)
    w.case("max_pool1d", lambda t: F.max_pool1d(t.double(), 2).to(t.dtype), [w.i(1, 1, 6, dtype=torch.int8)], kernel_size=2)
    for axes, call in [(1, F.max_pool1d), (2, F.max_pool2d), (3, F.max_pool3d)]:
        options = {"kernel_size": 3, "stride": 2, "padding": 1}
        w.case(f"max_pool{axes}d_with_indices", lambda t, c=call: c(t, **options, return_indices=True),
               [w.f(*shapes[axes], distinct=True, low=-8, high=8)], grad=False, **options)
    w.case("lp_pool1d", lambda t: F.lp_pool1d(t, 2.0, 3, 2), [w.f(1, 2, 9)], p=2.0, kernel_size=3, stride=2, at_tol=16)
    w.case("lp_pool2d", lambda t: F.lp_pool2d(t, 3.0, 2), [w.f(1, 1, 4, 5, low=0.5)], p=3.0, kernel_size=2, at_tol=32)
    adaptive = {1: (F.adaptive_avg_pool1d, F.adaptive_max_pool1d), 2: (F.adaptive_avg_pool2d, F.adaptive_max_pool2d),
                3: (F.adaptive_avg_pool3d, F.adaptive_max_pool3d)}
    for axes in [1, 2, 3]:
        for size in [[1, 1, 1], [3, 2, 2], [4, 5, 3], [11, 9, 5]]:
            size = size[:axes]
            for kind, call in zip(["avg", "max"], adaptive[axes]):
                x = w.f(*shapes[axes], distinct=True, low=-8, high=8)
                w.case(f"adaptive_{kind}_pool{axes}d", lambda t, c=call, s=size: c(t, s), [x], size=size, at_tol=8)
    w.case("global_avg_pool", lambda t: t.mean([2, 3]), [w.f(2, 2, 3, 4)], at_tol=8)
    w.case("global_max_pool", lambda t: t.amax([2, 3]), [w.f(2, 2, 3, 4, distinct=True)])
    w.write()


def norm():
    w = Writer("norm")
    f = w.f
    special = torch.tensor([[NAN, 1, 2], [-INF, 1, 2], [INF, 1, 2], [-INF, -INF, -INF], [80, -80, 0]], dtype=torch.float64)
    for name, call in [("softmax", F.softmax), ("log_softmax", F.log_softmax), ("softmin", F.softmin)]:
        for shape, axis in [([7], 0), ([3, 5], 1), ([3, 5], 0), ([2, 3, 4], -2), ([2, 1], -1), ([0, 3], 1), ([3, 0], 1)]:
            w.case(name, lambda t, c=call, d=axis: c(t, dim=d), [f(*shape)], axis=axis, at_tol=8)
        w.case(name, lambda t, c=call: c(t, dim=-1), [special], grad=False, axis=-1, at_tol=8)
    for shape, last, weight, bias, eps in [([2, 5], [5], True, True, 1e-5), ([2, 3, 4], [3, 4], True, True, 1e-5), ([3, 6], [6], False, False, 1e-2),
                                           ([2, 3, 8], [8], True, False, 1e-5)]:
        inputs = [f(*shape)] + ([f(*last)] if weight else []) + ([f(*last)] if bias else [])
        w.case("layer_norm", lambda x, *p, n=last, e=eps, has=weight: F.layer_norm(x, n, *p, eps=e), inputs, shape=last, eps=eps, at_tol=32)
    for shape, last, weight in [([2, 5], [5], True), ([2, 3, 4], [3, 4], False)]:
        w.case("rms_norm", lambda x, *p, n=last: F.rms_norm(x, n, *p, eps=1e-5), [f(*shape)] + ([f(*last)] if weight else []),
               shape=last, eps=1e-5, at_tol=32)
    for shape, groups in [([2, 4, 3], 2), ([1, 6, 2, 3], 3), ([2, 4, 5], 4), ([3, 4], 2)]:
        w.case("group_norm", lambda x, a, b, g=groups: F.group_norm(x, g, a, b, eps=1e-5), [f(*shape), f(shape[1]), f(shape[1])],
               groups=groups, eps=1e-5, at_tol=32)
    w.case("group_norm", lambda x: F.group_norm(x, 2, eps=1e-3), [f(2, 4, 3)], groups=2, eps=1e-3, at_tol=32)
    for shape in [[2, 3, 5], [1, 2, 3, 3], [1, 2, 2, 2, 3]]:
        w.case("instance_norm", lambda x, a, b: F.instance_norm(x, weight=a, bias=b, eps=1e-5), [f(*shape), f(shape[1]), f(shape[1])], eps=1e-5, at_tol=64)
    for shape in [[4, 3], [2, 3, 4], [2, 2, 3, 3]]:
        c = shape[1]
        w.case("batch_norm", lambda x, m, v, a, b: F.batch_norm(x, m, v, a, b, eps=1e-5), wrt=[0, 3, 4], inputs=[f(*shape), f(c), f(c, low=0.5), f(c), f(c)], eps=1e-5, at_tol=32)
        w.case("batch_norm_train", lambda x, a, b: F.batch_norm(x, None, None, a, b, training=True, eps=1e-5), [f(*shape), f(c), f(c)], eps=1e-5, at_tol=64)

        def running(x, mean, var):
            m, v = mean.clone(), var.clone()
            F.batch_norm(x, m, v, training=True, momentum=0.1, eps=1e-5)
            return m, v

        w.case("batch_norm_running", running, [f(*shape), f(c), f(c, low=0.5)], grad=False, eps=1e-5, momentum=0.1, at_tol=32, at_only="f64,f32")
    w.case("batch_norm", lambda x, m, v: F.batch_norm(x, m, v, eps=1e-3), wrt=[0], inputs=[f(2, 3, 4), f(3), f(3, low=0.5)], eps=1e-3, at_tol=32)
    for size in [1, 2, 3, 5]:
        w.case("local_response_norm", lambda x, s=size: F.local_response_norm(x, s, alpha=0.5, beta=0.75, k=1.5), [f(2, 5, 3)],
               size=size, alpha=0.5, beta=0.75, k=1.5, at_tol=32)
    for p, axis in [(2.0, 1), (1.0, 0), (3.0, -1), (INF, 1)]:
        w.case("normalize", lambda x, p=p, d=axis: F.normalize(x, p=p, dim=d, eps=1e-12), [f(3, 4, distinct=True)], p=p, axis=axis, eps=1e-12, at_tol=32)
    w.case("normalize", lambda x: F.normalize(x, dim=1), [torch.zeros(2, 3, dtype=torch.float64)], grad=False, p=2.0, axis=1, eps=1e-12)
    w.case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=1), [f(3, 4), f(3, 4)], axis=1, eps=1e-8, at_tol=32)
    w.case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=-1), [f(2, 1, 4), f(3, 4)], axis=-1, eps=1e-8, at_tol=32)
    for p in [1.0, 2.0, 3.0]:
        w.case("pairwise_distance", lambda a, b, p=p: F.pairwise_distance(a, b, p=p, eps=1e-6), [f(3, 4), f(3, 4)], p=p, eps=1e-6, at_tol=32)
    for p in [0.0, 1.0, 2.0, 3.0, INF]:
        w.case("cdist", lambda a, b, p=p: torch.cdist(a, b, p=p, compute_mode="donot_use_mm_for_euclid_dist"), [f(3, 4, distinct=True), f(2, 4)], p=p, at_tol=32,
               grad=p not in [0.0, INF])
        w.case("pdist", lambda a, p=p: F.pdist(a, p=p), [f(4, 3, distinct=True)], p=p, at_tol=32, grad=p not in [0.0, INF])
    same = f(1, 4).expand(2, 4).contiguous()
    w.case("cdist", lambda a, b: torch.cdist(a, b, p=2.0, compute_mode="donot_use_mm_for_euclid_dist"), [same, same.clone()], p=2.0, at_tol=32)
    w.case("cdist", lambda a, b: torch.cdist(a, b), [f(2, 3, 4), f(1, 2, 4)], p=2.0, at_tol=32)
    w.case("pdist", lambda a: F.pdist(a), [f(1, 3)], p=2.0, grad=False)
    w.write()


def attention():
    w = Writer("attention")
    f = lambda *shape: w.f(*shape, low=-1.5, high=1.5)
    sdpa = F.scaled_dot_product_attention
    w.case("attention", sdpa, [f(2, 3, 4), f(2, 5, 4), f(2, 5, 2)], at_tol=32)
    w.case("attention", lambda q, k, v: sdpa(q, k, v, is_causal=True), [f(2, 2, 4, 3), f(2, 2, 4, 3), f(2, 2, 4, 3)], causal=True, at_tol=32)
    w.case("attention", lambda q, k, v: sdpa(q, k, v, scale=0.3), [f(3, 4), f(5, 4), f(5, 4)], scale=0.3, at_tol=32)
    w.case("attention", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [f(2, 3, 4), f(2, 5, 4), f(2, 5, 2), f(3, 5)], mask=True, at_tol=32)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    w.case("attention", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [f(2, 3, 4), f(2, 5, 4), f(2, 5, 2), mask], mask=True, at_tol=32, grad=False)

    def heads(q, k, v):
        split = lambda x: x.reshape(x.shape[0], x.shape[1], 2, -1).transpose(1, 2)
        return sdpa(split(q), split(k), split(v)).transpose(1, 2).reshape(q.shape[0], q.shape[1], -1)

    w.case("multi_head_attention", heads, [f(2, 3, 6), f(2, 4, 6), f(2, 4, 4)], heads=2, at_tol=32)
    w.case("embedding", lambda t, x: F.embedding(x, t), [f(5, 3), w.i(2, 4, low=0, high=4, dtype=torch.int64)])
    w.case("embedding", lambda t, x: F.embedding(x, t), [f(5, 3), torch.tensor(2, dtype=torch.int32)])
    w.case("embedding", lambda t, x: F.embedding(x, t, padding_idx=1), [f(4, 2), torch.tensor([0, 1, 1, 3, 0])], padding=1)
    w.case("embedding", lambda t, x: F.embedding(x, t), [f(4, 2), torch.zeros(0, dtype=torch.int64)])
    w.write()


def loss():
    w = Writer("loss")
    f = w.f
    reductions = ["mean", "sum", "none"]
    classes = lambda c, *shape: w.i(*shape, low=0, high=c - 1, dtype=torch.int64)
    for reduction in reductions:
        r = {"reduction": reduction}
        for x, target in [(f(4, 5), classes(5, 4)), (f(2, 3, 4), classes(3, 2, 4)), (f(5), classes(5)), (f(3, 4), classes(4, 3).to(torch.int32).long())]:
            w.case("cross_entropy", lambda a, b, o=r: F.cross_entropy(a, b, **o), [x, target], at_tol=16, **r)
        some = torch.tensor([1, -100, 0, 4])
        w.case("cross_entropy", lambda a, b, o=r: F.cross_entropy(a, b, **o), [f(4, 5), some], at_tol=16, **r)
        w.case("cross_entropy", lambda a, b, o=r: F.cross_entropy(a, b, ignore_index=2, **o), [f(4, 5), torch.tensor([2, 1, 2, 3])],
               ignore_index=2, at_tol=16, **r)
        w.case("cross_entropy", lambda a, b, x, o=r: F.cross_entropy(a, b, weight=x, **o), wrt=[0], inputs=[f(4, 5), some, f(5, low=0.25)], weight=True, at_tol=16, **r)
        w.case("cross_entropy", lambda a, b, o=r: F.cross_entropy(a, b, label_smoothing=0.2, **o), [f(4, 5), some], label_smoothing=0.2, at_tol=16, **r)
        w.case("cross_entropy", lambda a, b, x, o=r: F.cross_entropy(a, b, weight=x, label_smoothing=0.2, **o), wrt=[0], inputs=[f(4, 5), some, f(5, low=0.25)], weight=True,
               label_smoothing=0.2, at_tol=16, **r)
        odds = F.softmax(f(4, 5), dim=1).mul(16).round().div(16)
        w.case("cross_entropy", lambda a, b, o=r: F.cross_entropy(a, b, **o), [f(4, 5), odds], at_tol=32, **r)
        w.case("cross_entropy", lambda a, b, x, o=r: F.cross_entropy(a, b, weight=x, label_smoothing=0.1, **o), wrt=[0, 1], inputs=[f(4, 5), odds, f(5, low=0.25)], weight=True,
               label_smoothing=0.1, at_tol=32, **r)
        w.case("nll_loss", lambda a, b, o=r: F.nll_loss(a, b, **o), [f(4, 5), some], at_tol=8, **r)
        w.case("nll_loss", lambda a, b, x, o=r: F.nll_loss(a, b, weight=x, **o), wrt=[0], inputs=[f(2, 3, 2), classes(3, 2, 2), f(3, low=0.25)], weight=True, at_tol=8, **r)
        unit = lambda *shape: w.f(*shape, low=1 / 16, high=15 / 16)
        w.case("binary_cross_entropy", lambda a, b, o=r: F.binary_cross_entropy(a, b, **o), [unit(3, 4), unit(3, 4)], at_tol=16, **r)
        w.case("binary_cross_entropy", lambda a, b, x, o=r: F.binary_cross_entropy(a, b, weight=x, **o), [unit(3, 4), unit(3, 4), f(4, low=0.25)], weight=True, at_tol=16, grad=False, **r)
        w.case("binary_cross_entropy", lambda a, b, o=r: F.binary_cross_entropy(a, b, **o),
               [torch.tensor([0, 1, 0, 1, 0.5], dtype=torch.float64), torch.tensor([0, 1, 1, 0, 0.5], dtype=torch.float64)], grad=False, at_tol=8, **r)
        w.case("binary_cross_entropy_with_logits", lambda a, b, o=r: F.binary_cross_entropy_with_logits(a, b, **o), [f(3, 4), unit(3, 4)], at_tol=16, **r)
        w.case("binary_cross_entropy_with_logits", lambda a, b, x, p, o=r: F.binary_cross_entropy_with_logits(a, b, weight=x, pos_weight=p, **o), wrt=[0],
               inputs=[f(3, 4), unit(3, 4), f(4, low=0.25), f(4, low=0.25)], weight=True, positive=True, at_tol=16, **r)
        w.case("binary_cross_entropy_with_logits", lambda a, b, o=r: F.binary_cross_entropy_with_logits(a, b, **o),
               [torch.tensor([120, -120, 120, -120], dtype=torch.float64), torch.tensor([0, 1, 1, 0], dtype=torch.float64)], grad=False, at_tol=8, **r)
        for name, call in [("mse_loss", F.mse_loss), ("l1_loss", F.l1_loss)]:
            w.case(name, lambda a, b, c=call, o=r: c(a, b, **o), [f(3, 4), f(3, 4)], at_tol=16, **r)
        for beta in [1.0, 0.5, 0.0]:
            w.case("smooth_l1_loss", lambda a, b, o=r, x=beta: F.smooth_l1_loss(a, b, beta=x, **o), [f(3, 4), f(3, 4)], beta=beta, at_tol=16, **r)
        w.case("huber_loss", lambda a, b, o=r: F.huber_loss(a, b, delta=0.75, **o), [f(3, 4), f(3, 4)], delta=0.75, at_tol=16, **r)
        target = torch.tensor([[0, 0.25, 0.75], [0.5, 0.5, 0]], dtype=torch.float64)
        w.case("kl_div", lambda a, b, o=r: F.kl_div(a, b, **o), [f(2, 3), target], at_tol=16, grad=False, **r)
        w.case("kl_div", lambda a, b, o=r: F.kl_div(a, b, **o), [f(2, 3), unit(2, 3)], at_tol=16, **r)
        w.case("kl_div_log_target", lambda a, b, o=r: F.kl_div(a, b, log_target=True, **o), [f(2, 3), f(2, 3)], at_tol=16, **r)
        w.case("poisson_nll_loss", lambda a, b, o=r: F.poisson_nll_loss(a, b, **o), [f(2, 3), f(2, 3, low=0)], at_tol=16, grad=True, **r)
        w.case("gaussian_nll_loss", lambda a, b, v, o=r: F.gaussian_nll_loss(a, b, v, **o), [f(2, 3), f(2, 3), f(2, 3, low=0.25)], eps=1e-6, at_tol=16, **r)
        sign = lambda *shape: w.b(*shape).double() * 2 - 1
        w.case("soft_margin_loss", lambda a, b, o=r: F.soft_margin_loss(a, b, **o), [f(2, 3), sign(2, 3)], at_tol=16, grad=False, **r)
        w.case("hinge_embedding_loss", lambda a, b, o=r: F.hinge_embedding_loss(a, b, margin=0.75, **o), [f(2, 3), sign(2, 3)], margin=0.75, at_tol=16, grad=False, **r)
        w.case("margin_ranking_loss", lambda a, b, y, o=r: F.margin_ranking_loss(a, b, y, margin=0.25, **o), [f(4), f(4), sign(4)], margin=0.25, at_tol=16, grad=False, **r)
        w.case("cosine_embedding_loss", lambda a, b, y, o=r: F.cosine_embedding_loss(a, b, y, margin=0.25, **o), [f(4, 3), f(4, 3), sign(4)], margin=0.25, at_tol=32,
               grad=False, **r)
        for swap, p in [(False, 2.0), (True, 2.0), (False, 1.0)]:
            w.case("triplet_margin_loss", lambda a, b, c, o=r, s=swap, q=p: F.triplet_margin_loss(a, b, c, margin=1.0, p=q, swap=s, **o),
                   [f(3, 4), f(3, 4), f(3, 4)], margin=1.0, p=p, swap=swap, at_tol=32, **r)
    w.case("cross_entropy", F.cross_entropy, [f(2, 3), torch.tensor([-100, -100])], grad=False, at_tol=8, reduction="mean")
    w.case("cross_entropy", F.cross_entropy, [torch.tensor([[1e4, 0.0], [0.0, 1e4]], dtype=torch.float64), torch.tensor([0, 0])], grad=False, at_tol=8, reduction="mean",
           at_only="f64,f32")
    w.case("mse_loss", lambda a, b: F.mse_loss(a, b.expand(2, 3)), [f(2, 3), f(3)], at_tol=16, reduction="mean")
    w.case("mse_loss", F.mse_loss, [f(0), f(0)], grad=False, reduction="mean")
    w.write()


GROUPS = [linalg, convolution, pool, norm, attention, loss]

if __name__ == "__main__":
    (HERE / "cases").mkdir(exist_ok=True)
    torch.manual_seed(0)
    for group in GROUPS:
        group()
