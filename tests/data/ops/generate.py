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
    for axes, call in [(1, F.max_pool1d), (2, F.max_pool2d), (3, F.max_pool3d)]:
        options = {"kernel_size": 3, "stride": 2, "padding": 1}
        w.case(f"max_pool{axes}d", lambda t, c=call, o=options: c(t, **o), [w.f(*shapes[axes], low=0, high=2).round()], **options)
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


def special(*more):
    return torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 8.0, -8.0, INF, -INF, NAN, *more], dtype=torch.float64)


def unary():
    w = Writer("unary")
    real = {
        "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc,
        "round": torch.round, "sqrt": (torch.sqrt, 0.25), "exp": torch.exp, "expm1": torch.expm1, "log": (torch.log, 0.25),
        "log1p": (torch.log1p, -0.75), "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "tan": (torch.tan, -1, 1),
        "asin": (torch.asin, -0.875, 0.875), "acos": (torch.acos, -0.875, 0.875), "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
        "asinh": torch.asinh, "acosh": (torch.acosh, 1.25), "atanh": (torch.atanh, -0.875, 0.875), "sigmoid": torch.sigmoid,
        "logsigmoid": F.logsigmoid, "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)), "softsign": F.softsign, "relu": F.relu,
        "relu6": F.relu6, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "selu": F.selu, "silu": F.silu, "mish": F.mish, "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "tanhshrink": F.tanhshrink, "square": torch.square, "reciprocal": (torch.reciprocal, 0.25),
        "rsqrt": (torch.rsqrt, 0.25), "exp2": torch.exp2, "log2": (torch.log2, 0.25), "log10": (torch.log10, 0.25),
        "erfc": torch.erfc, "logit": (torch.logit, 0.125, 0.875), "frac": torch.frac, "isnan": torch.isnan, "isinf": torch.isinf,
        "isfinite": torch.isfinite, "signbit": torch.signbit, "logical_not": torch.logical_not,
    }
    # Steps and kinks: a gradient at them is a matter of taste, the inputs below avoid it.
    for name, entry in real.items():
        call, low, high = (*entry, 3.0)[:3] if isinstance(entry, tuple) else (entry, -3.0, 3.0)
        tol = 8 if name not in ["tan", "logit", "acosh", "atanh", "gelu_tanh", "mish", "tanhshrink", "erfc", "logsigmoid", "cosh", "sinh"] else 64
        w.case(name, call, [special()], grad=False, at_tol=tol)
        x = w.f(4, 3, low=low, high=high)
        x = torch.where(x * 16 % 8 == 0, x + 0.0625, x)
        w.case(name, call, [x], at_tol=tol)
    w.case("neg", torch.neg, [torch.zeros(0, 3, dtype=torch.float64)], grad=False)
    for name in ["neg", "abs", "sign", "square"]:
        for x in [torch.tensor([-128, -1, 0, 5, 127], dtype=torch.int8), torch.tensor([-(2**31), 7, 2**31 - 1], dtype=torch.int32),
                  torch.tensor([-(2**63), -3, 2**63 - 1], dtype=torch.int64)]:
            w.case(name, real[name], [x])
    for name in ["floor", "ceil", "round", "trunc", "relu"]:
        w.case(name, real[name], [w.i(5)])
    for name in ["sqrt", "exp", "sin", "log", "sigmoid", "tanh", "reciprocal", "log2"]:
        call = real[name][0] if isinstance(real[name], tuple) else real[name]
        w.case(name, call, [torch.tensor([1, 2, 3, 9], dtype=torch.int32)], at_tol=8)
        w.case(name, call, [torch.tensor([True])], at_tol=8)
    for name, call in [("bitwise_not", torch.bitwise_not), ("logical_not", torch.logical_not)]:
        for x in [w.i(6, dtype=torch.int16), w.b(5), torch.tensor([0, 1, 255], dtype=torch.uint8)]:
            w.case(name, call, [x])
    x = w.f(4, 3) + 0.03125
    for name, call, options in [
        ("leaky_relu", lambda t: F.leaky_relu(t, 0.1), {"slope": 0.1}), ("elu", lambda t: F.elu(t, 1.5), {"alpha": 1.5}),
        ("celu", lambda t: F.celu(t, 1.5), {"alpha": 1.5}), ("hardtanh", lambda t: F.hardtanh(t, -1.5, 0.75), {"low": -1.5, "high": 0.75}),
        ("hardshrink", lambda t: F.hardshrink(t, 0.75), {"lambda": 0.75}), ("softshrink", lambda t: F.softshrink(t, 0.75), {"lambda": 0.75}),
        ("threshold", lambda t: F.threshold(t, 0.25, -7.0), {"threshold": 0.25, "value": -7.0}),
        ("clamp", lambda t: torch.clamp(t, -1.0, 0.5), {"low": -1.0, "high": 0.5}), ("clamp_min", lambda t: torch.clamp(t, min=-1.0), {"low": -1.0}),
        ("clamp_max", lambda t: torch.clamp(t, max=0.5), {"high": 0.5}), ("cumsum", lambda t: torch.cumsum(t, 0), {"axis": 0}),
    ]:
        w.case(name, call, [x], at_tol=8, **options)
        w.case(name, call, [special()], grad=False, at_tol=8, **options)
    w.case("prelu", F.prelu, [w.f(2, 3, 2) + 0.03125, w.f(3)], at_tol=8)
    w.case("prelu", F.prelu, [w.f(5) + 0.03125, w.f(1)], at_tol=8)
    exact = [torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
    for source, target in itertools.product(exact, exact):
        x = w.b(4) if source == torch.bool else (torch.tensor([0.0, 1.0, 2.75, 100.5], dtype=source) if source == torch.float64
                                                   else torch.tensor([0, 1, 77, 127], dtype=source))
        if target != torch.float64:
            w.case("cast", lambda t, d=target: t.to(d), [x], dtype=NAMES[target])
    w.case("cast", lambda t: t.to(torch.int8), [torch.tensor([255, 128, -129, 1000], dtype=torch.int32)], dtype="i8")
    w.case("cast", lambda t: t.to(torch.uint8), [torch.tensor([-1, 256, 511], dtype=torch.int64)], dtype="u8")
    w.case("cast", lambda t: t.to(torch.bool), [special()], grad=False, dtype="bool")
    w.write()


def binary():
    w = Writer("binary")
    f, i = w.f, w.i
    away = lambda *shape: torch.where(f(*shape) > 0, f(*shape, low=0.5), f(*shape, high=-0.5))
    real = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
            "fmax": torch.fmax, "fmin": torch.fmin, "atan2": torch.atan2, "hypot": torch.hypot, "logaddexp": torch.logaddexp,
            "copysign": torch.copysign, "fmod": torch.fmod, "remainder": torch.remainder}
    truth = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
    pairs = [p for p in itertools.product([0.0, -0.0, 1.0, -2.5, INF, -INF, NAN], repeat=2)]
    left, right = (torch.tensor([p[at] for p in pairs], dtype=torch.float64) for at in (0, 1))
    for name, call in real.items():
        w.case(name, call, [left, right], grad=False, at_tol=8)
        smooth = name not in ["fmod", "remainder"]
        w.case(name, call, [away(3, 4), away(3, 4) + 0.03125], at_tol=16, grad=smooth)
        w.case(name, call, [away(2, 1, 3), away(4, 1) + 0.03125], at_tol=16, grad=smooth)
        w.case(name, call, [away(2, 3), away()], at_tol=16, grad=smooth and name != "maximum")
    for name, call in truth.items():
        w.case(name, call, [left, right], grad=False)
        w.case(name, call, [i(2, 3, low=-2, high=2), i(3, low=-2, high=2)])
        w.case(name, call, [w.b(4), w.b(4)])
        w.case(name, call, [i(4, low=-2, high=2, dtype=torch.int8), torch.tensor([0.0, 1.0, -1.5, 2.0], dtype=torch.float64)], grad=False)
    w.case("div_floor", lambda a, b: torch.div(a, b, rounding_mode="floor"), [left, right], grad=False, at_tol=8)
    w.case("div_floor", lambda a, b: torch.div(a, b, rounding_mode="floor"), [away(12), away(12)], grad=False, at_tol=8)
    w.case("isclose", lambda a, b: torch.isclose(a, b, rtol=0.25, atol=0.5), [left, right], grad=False, rtol=0.25, atol=0.5, at_only="f64,f32")
    w.case("heaviside", torch.heaviside, [left, right], grad=False)
    w.case("xlogy", torch.xlogy, [left, right], grad=False, at_tol=8)
    w.case("xlogy", torch.xlogy, [f(5), f(5, low=0.25)], at_tol=8)
    for a, b in [(f(6, low=0.25), f(6)), (left, right), (f(2, 3, low=0.25), f(3))]:
        w.case("pow", torch.pow, [a, b], grad=a is not left, at_tol=64)
    for exponent in [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 2.5]:
        w.case("pow_scalar", lambda t, e=exponent: torch.pow(t, e), [f(5, low=0.25)], value=exponent, at_tol=64)
        w.case("pow_scalar", lambda t, e=exponent: torch.pow(t, e), [special()], grad=False, value=exponent, at_tol=64)
    w.case("pow", torch.pow, [i(6), i(6, low=0, high=5)])
    w.case("pow", torch.pow, [i(6, dtype=torch.int8), i(6, low=0, high=9, dtype=torch.int8)])
    w.case("lerp", torch.lerp, [f(4), f(4), f(4)], at_tol=16)
    w.case("where_cond", torch.where, [w.b(2, 3), f(2, 3), f(3)])
    w.case("where_cond", torch.where, [w.b(2, 1), i(3), i(2, 3)])
    w.case("where_cond", torch.where, [w.b(3), torch.tensor([NAN, 1.0, INF], dtype=torch.float64), f(3)], grad=False)
    ints = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
    for dtype in ints:
        least = 0 if dtype == torch.uint8 else -9
        wide = lambda: i(8, low=torch.iinfo(dtype).min, high=torch.iinfo(dtype).max, dtype=dtype)
        nonzero = lambda: torch.where(i(8, dtype=dtype, low=0, high=1) > 0, i(8, low=1, high=9, dtype=dtype), i(8, low=min(least, 1), high=max(least, 1) if least == 0 else -1, dtype=dtype))
        for name, call in [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("maximum", torch.maximum), ("minimum", torch.minimum)]:
            w.case(name, call, [wide(), wide()])
        divisor = nonzero()
        divisor = torch.where(divisor == 0, torch.ones_like(divisor), divisor)
        w.case("div", torch.div, [i(8, low=least, dtype=dtype), divisor])
        for name, call in [("fmod", torch.fmod), ("remainder", torch.remainder), ("div_floor", lambda a, b: torch.div(a, b, rounding_mode="floor"))]:
            w.case(name, call, [i(8, low=least, dtype=dtype), divisor])
        for name, call in [("bitwise_and", torch.bitwise_and), ("bitwise_or", torch.bitwise_or), ("bitwise_xor", torch.bitwise_xor)]:
            w.case(name, call, [wide(), wide()])
        for name, call in [("bitwise_left_shift", torch.bitwise_left_shift), ("bitwise_right_shift", torch.bitwise_right_shift)]:
            w.case(name, call, [i(8, low=least, dtype=dtype), i(8, low=0, high=7, dtype=dtype)])
    for name, call in [("logical_and", torch.logical_and), ("logical_or", torch.logical_or), ("logical_xor", torch.logical_xor)]:
        w.case(name, call, [w.b(6), w.b(6)])
        w.case(name, call, [i(6, low=-1, high=1), i(6, low=-1, high=1)])
        w.case(name, call, [special(), special().flip(0)], grad=False)
    mixed = [w.b(4), i(4, low=0, dtype=torch.uint8), i(4, dtype=torch.int8), i(4, dtype=torch.int16), i(4), i(4, dtype=torch.int64), f(4)]
    for a, b in itertools.product(mixed, mixed):
        if a.dtype != b.dtype:
            w.case("add", torch.add, [a, b], grad=False)
            w.case("mul", torch.mul, [a, b], grad=False)
    for value in [3, -2]:
        for x in [i(4), i(4, dtype=torch.int8), f(4), w.b(4)]:
            for name, call in [("add_scalar", torch.add), ("mul_scalar", torch.mul)]:
                w.case(name, lambda t, c=call, v=value: c(t, v), [x], value=value)
    for x in [i(4), i(4, dtype=torch.int8), f(4)]:
        w.case("add_scalar", lambda t: torch.add(t, 0.5), [x], value=0.5)
        w.case("div_scalar", lambda t: torch.div(t, 2), [x], value=2)
    w.case("add", torch.add, [torch.zeros(0, 3, dtype=torch.float64), f(1, 3)], grad=False)
    w.write()


def reduction():
    w = Writer("reduction")
    f, i = w.f, w.i
    dims = lambda x, axes: list(range(x.dim())) if axes is None else axes

    def each(call):
        return lambda x, axes, keep: call(x, dim=dims(x, axes), keepdim=keep)

    def one_by_one(call):
        def reduced(x, axes, keep):
            for axis in sorted((a % x.dim() for a in dims(x, axes)), reverse=True):
                x = call(x, dim=axis, keepdim=keep)
            return x

        return reduced

    def flat(call):
        def reduced(x, axes, keep):
            return call(x) if axes is None else call(x, dim=axes[0], keepdim=keep)

        return reduced

    calls = {
        "sum": each(torch.sum), "mean": each(torch.mean), "prod": one_by_one(torch.prod), "max": each(torch.amax), "min": each(torch.amin),
        "any": one_by_one(torch.any), "all": one_by_one(torch.all), "logsumexp": each(torch.logsumexp), "argmax": flat(torch.argmax), "argmin": flat(torch.argmin),
        "count_nonzero": lambda x, axes, keep: (x != 0).sum(dim=dims(x, axes), keepdim=keep),
    }
    truth = ["any", "all", "argmax", "argmin", "count_nonzero"]
    for name, call in calls.items():
        single = name in ["argmax", "argmin"]
        for shape, axes, keep in [([3, 4], None, False), ([3, 4], [0], False), ([3, 4], [1], True), ([2, 3, 4], [-2], False),
                                  ([2, 3, 4], [2, 0], False), ([2, 3, 4], [0, 1], True), ([5], [0], False), ([2, 300], [1], False), ([300, 2], [0], False)]:
            if single and axes is not None and len(axes) > 1:
                continue
            if name == "prod" and 300 in shape:
                continue
            x = f(*shape, distinct=math.prod(shape) < 90) if name in ["max", "min", "argmax", "argmin"] else f(*shape)
            if name == "prod":
                x = f(*shape, low=0.5, high=1.5)
            unique = math.prod(shape) < 90
            w.case(name, lambda t, c=call, a=axes, k=keep: c(t, a, k), [x], axes=axes, keep=keep or None, at_tol=32 if 300 not in shape else 128,
                   grad=name not in truth and unique)
        rows = torch.tensor([[1, NAN, 2], [INF, 1, -INF], [-INF, -INF, -INF], [0, -0.0, 0], [NAN, NAN, INF]], dtype=torch.float64)
        w.case(name, lambda t, c=call: c(t, [1], False), [rows], axes=[1], grad=False, at_tol=32)
        if name not in ["mean", "logsumexp"]:
            w.case(name, lambda t, c=call: c(t, [1], False), [i(3, 4)], axes=[1])
            w.case(name, lambda t, c=call: c(t, [0], False), [i(3, 4, low=100, high=127, dtype=torch.int8)], axes=[0])
        if name not in ["mean", "logsumexp", "argmax", "argmin", "max", "min", "prod"]:
            w.case(name, lambda t, c=call: c(t, [0], False), [w.b(3, 4)], axes=[0])
        w.case(name, lambda t, c=call: c(t, [1], False), [torch.zeros(0, 3, dtype=torch.float64)], axes=[1], grad=False)
        if name not in ["max", "min", "argmax", "argmin"]:
            w.case(name, lambda t, c=call: c(t, [0], False), [torch.zeros(0, 3, dtype=torch.float64)], axes=[0], grad=False)
    for name, call in [("var", torch.var), ("std", torch.std)]:
        for shape, axes, keep, correction in [([3, 4], None, False, 1), ([3, 4], [0], False, 0), ([2, 3, 4], [1, 2], True, 1), ([4, 1], [1], False, 1)]:
            w.case(name, lambda t, c=call, a=axes, k=keep, n=correction: c(t, dim=dims(t, a), keepdim=k, correction=n), [f(*shape)], axes=axes, keep=keep or None,
                   correction=correction, at_tol=64, grad=shape != [4, 1])
    for p in [0.0, 1.0, 2.0, 3.0, INF, -INF]:
        for shape, axes, keep in [([3, 4], None, False), ([3, 4], [1], False), ([2, 3, 4], [0, 2], True)]:
            w.case("norm", lambda t, a=axes, k=keep, p=p: torch.linalg.vector_norm(t, p, dim=a, keepdim=k), [f(*shape, distinct=True)], axes=axes, keep=keep or None, p=p,
                   at_tol=64, grad=p not in [0.0])
    for name, call in [("cumsum", torch.cumsum), ("cumprod", torch.cumprod)]:
        for shape, axis in [([5], 0), ([3, 4], 1), ([3, 4], 0), ([2, 3, 2], -2), ([0, 3], 0)]:
            w.case(name, lambda t, c=call, d=axis: c(t, d), [f(*shape, low=0.5, high=1.5)], axis=axis, at_tol=32)
        w.case(name, lambda t, c=call: c(t, 0), [i(5, dtype=torch.int8)], axis=0)
    for name, call in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
        for shape, axis in [([5], 0), ([3, 4], 1), ([3, 4], 0)]:
            w.case(name, lambda t, c=call, d=axis: c(t, d).values, [f(*shape, distinct=True)], axis=axis)
        w.case(name, lambda t, c=call: c(t, 0).values, [torch.tensor([1, NAN, 2, -INF, INF], dtype=torch.float64)], grad=False, axis=0)
    w.write()


def shape():
    w = Writer("shape")
    f = w.f
    for to_shape, x in [([6, 4], [2, 3, 4]), ([-1, 2], [2, 3, 4]), ([24], [2, 3, 4]), ([0, 5], [5, 0]), ([1], [])]:
        w.case("reshape", lambda t, s=to_shape: t.reshape(s), [f(*x)], shape=to_shape)
    w.case("reshape", lambda t: t.permute(2, 0, 1).reshape(4, 6), [f(2, 3, 4)], permute=[2, 0, 1], shape=[4, 6])
    for axes in [[2, 0, 1], [0, 2, 1], [-1, 0, 1]]:
        w.case("permute", lambda t, a=axes: t.permute(a), [f(2, 3, 4)], axes=axes)
    w.case("transpose", lambda t: t.transpose(0, -1), [f(2, 3, 4)], a=0, b=-1)
    w.case("t", lambda t: t.t(), [f(2, 3)])
    w.case("movedim", lambda t: t.movedim([0, 1], [-1, 0]), [f(2, 3, 4)], source=[0, 1], to=[-1, 0])
    w.case("squeeze", lambda t: t.squeeze(), [f(1, 3, 1)])
    w.case("squeeze_axes", lambda t: t.squeeze(0), [f(1, 3, 1)], axes=[0])
    w.case("unsqueeze", lambda t: t.unsqueeze(-1), [f(2, 3)], axis=-1)
    w.case("expand", lambda t: t.expand(2, 3, 4), [f(3, 1)], shape=[2, -1, 4])
    w.case("flatten", lambda t: t.flatten(), [f(2, 3)])
    w.case("flatten_axes", lambda t: t.flatten(1, 2), [f(2, 3, 4)], a=1, b=2)
    w.case("unflatten", lambda t: t.unflatten(1, (2, 3)), [f(2, 6)], axis=1, shape=[2, 3])
    w.case("narrow", lambda t: t.narrow(1, 1, 2), [f(2, 4)], axis=1, start=1, length=2)
    w.case("select", lambda t: t.select(1, -1), [f(2, 4)], axis=1, at=-1)
    for start, end, step in [(1, 7, 2), (0, 8, 3), (-3, 8, 1), (2, 2, 1)]:
        w.case("slice", lambda t, s=slice(start, end, step): t[s], [f(8, 2)], start=start, end=end, step=step)
    w.case("slice", lambda t: t.flip(0)[::2], [f(7, 2)], start=6, end=-100, step=-2)
    w.case("flip", lambda t: t.flip([0, 2]), [f(2, 3, 4)], axes=[0, 2])
    for shift, axis in [(1, 0), (-2, 1), (7, 1)]:
        w.case("roll", lambda t, s=shift, a=axis: t.roll(s, a), [f(3, 4)], shift=shift, axis=axis)
    w.case("tile", lambda t: t.tile([2, 1, 3]), [f(2, 2)], repeats=[2, 1, 3])
    w.case("repeat_interleave", lambda t: t.repeat_interleave(3, 1), [f(2, 2)], count=3, axis=1)
    for axis, shapes in [(0, [[2, 3], [1, 3], [3, 3]]), (-1, [[2, 1], [2, 4]]), (1, [[2, 0], [2, 2]])]:
        w.case("concat", lambda *t, a=axis: torch.cat(t, a), [f(*s) for s in shapes], axis=axis)
    w.case("concat", lambda *t: torch.cat(t), [w.i(2), w.i(3, dtype=torch.int64)], axis=0)
    for axis in [0, 1, -1]:
        w.case("stack", lambda *t, a=axis: torch.stack(t, a), [f(2, 3), f(2, 3)], axis=axis)
    w.case("split", lambda t: torch.split(t, 2, 1), [f(2, 5)], size=2, axis=1)
    w.case("chunk", lambda t: torch.chunk(t, 3, 0), [f(7, 2)], count=3, axis=0)
    for widths in [[(1, 2)], [(0, 1), (2, 0)], [(1, 1), (0, 0), (3, 1)]]:
        x = f(*[3, 4, 2][: len(widths)])
        flat = [n for pair in reversed(widths) for n in pair]
        w.case("pad", lambda t, p=flat: F.pad(t, p, value=1.5), [x], widths=[n for pair in widths for n in pair], mode="constant", value=1.5)
    for mode in ["reflect", "replicate", "circular"]:
        for x, widths in [([1, 2, 5], [(2, 1)]), ([1, 1, 4, 5], [(1, 3), (2, 2)])]:
            flat = [n for pair in reversed(widths) for n in pair]
            w.case("pad", lambda t, p=flat, m=mode: F.pad(t, p, mode=m), [f(*x)], widths=[0, 0, 0, 0] + [n for pair in widths for n in pair], mode=mode)
    for k in [0, 1, -1, 5]:
        w.case("tril", lambda t, k=k: t.tril(k), [f(3, 4)], k=k)
        w.case("triu", lambda t, k=k: t.triu(k), [f(2, 4, 3)], k=k)
    for k in [0, 1, -2]:
        w.case("diagonal", lambda t, k=k: t.diagonal(k, 0, 2), [f(3, 2, 4)], k=k, a=0, b=2)
        w.case("diag", lambda t, k=k: t.diag(k), [f(3)], k=k)
        w.case("diag", lambda t, k=k: t.diag(k), [f(3, 4)], k=k)
    w.case("trace", lambda t: t.trace(), [f(3, 4)], at_tol=8)
    w.write()


def indexed():
    w = Writer("indexed")
    f, i = w.f, w.i
    at = lambda n, *shape, dtype=torch.int64: i(*shape, low=0, high=n - 1, dtype=dtype)
    for shape, axis, index in [([4, 3], 0, [2, 3]), ([4, 3], 1, [4, 2]), ([4, 3], -1, [2, 5]), ([5], 0, [7]), ([2, 3, 4], 1, [2, 1, 3])]:
        n = shape[axis]
        w.case("gather", lambda t, j, a=axis: torch.gather(t, a, j), [f(*shape), at(n, *index)], axis=axis)
    w.case("gather", lambda t, j: torch.gather(t, 0, j), [i(4), at(4, 6)], axis=0)
    for shape, axis in [([4, 3], 0), ([4, 3], 1), ([2, 3, 4], -1)]:
        w.case("index_select", lambda t, j, a=axis: torch.index_select(t, a, j), [f(*shape), at(shape[axis], 5)], axis=axis)
    w.case("index_select", lambda t, j: torch.index_select(t, 0, j), [f(4, 2), torch.zeros(0, dtype=torch.int64)], axis=0)
    w.case("take", torch.take, [f(3, 4), at(12, 2, 3)])
    order = lambda n: torch.tensor(w.random.sample(range(n), n))
    w.case("scatter", lambda t, j, s: t.scatter(0, j, s), [f(5), order(5)[:3], f(3)], axis=0)
    w.case("scatter", lambda t, j, s: t.scatter(1, j, s), [f(2, 4), torch.stack([order(4)[:2], order(4)[:2]]), f(2, 2)], axis=1)
    for axis, base, index in [(0, [5, 3], [4, 3]), (1, [3, 4], [2, 6]), (0, [3], [9])]:
        w.case("scatter_add", lambda t, j, s, a=axis: t.scatter_add(a, j, s), [f(*base), at(base[axis], *index), f(*index)], axis=axis, at_tol=16)
        for name, mode in [("scatter_max", "amax"), ("scatter_min", "amin")]:
            w.case(name, lambda t, j, s, a=axis, m=mode: t.scatter_reduce(a, j, s, reduce=m), [f(*base), at(base[axis], *index), f(*index)], axis=axis, grad=False)
    w.case("scatter_add", lambda t, j, s: t.scatter_add(0, j, s), [i(4), at(4, 9), i(9)], axis=0)
    w.case("index_add", lambda t, j, s: t.index_add(0, j, s), [f(4, 2), at(4, 5), f(5, 2)], axis=0, at_tol=16)
    w.case("index_copy", lambda t, j, s: t.index_copy(1, j, s), [f(2, 4), order(4)[:2], f(2, 2)], axis=1)
    w.case("one_hot", lambda t: F.one_hot(t, 5), [at(5, 2, 3)], classes=5)
    w.case("masked_fill", lambda t, m: t.masked_fill(m, -2.5), [f(2, 3), w.b(3)], value=-2.5)
    w.case("masked_select", torch.masked_select, [f(3, 4), w.b(3, 4)])
    w.case("masked_select", torch.masked_select, [f(3), torch.zeros(3, dtype=torch.bool)], grad=False)
    w.case("nonzero", torch.nonzero, [i(3, 4, low=-1, high=1)])
    w.case("nonzero", torch.nonzero, [w.b(2, 2, 3)])
    w.case("nonzero", torch.nonzero, [torch.zeros(0, 3, dtype=torch.int32)])
    w.case("unique", torch.unique, [i(12, low=-3, high=3)])
    w.case("unique", torch.unique, [torch.tensor([2.5, -1.0, 2.5, INF, 0.0], dtype=torch.float64)], grad=False)
    w.case("unique_counts", lambda t: torch.unique(t, return_inverse=True, return_counts=True), [i(3, 4, low=-3, high=3)])
    w.case("bincount", lambda t: torch.bincount(t, minlength=8), [at(6, 9)], least=8)
    rows = torch.tensor([[3, NAN, -INF, 1, INF], [2, 2, 1, 2, 1], [0, -0.0, 0, NAN, NAN]], dtype=torch.float64)
    for descending in [False, True]:
        for shape, axis in [([7], 0), ([3, 5], 1), ([3, 5], 0), ([2, 3, 4], -2)]:
            x = f(*shape, distinct=True)
            w.case("sort", lambda t, a=axis, d=descending: tuple(torch.sort(t, dim=a, descending=d, stable=True)), [x], axis=axis, descending=descending)
        w.case("argsort", lambda t, d=descending: torch.argsort(t, dim=0, descending=d, stable=True), [i(9, low=-2, high=2)], axis=0, descending=descending)
        for k, axis, shape in [(2, 1, [3, 5]), (3, 0, [4, 2]), (1, -1, [6])]:
            x = f(*shape, distinct=True)
            w.case("topk", lambda t, n=k, a=axis, d=descending: tuple(torch.topk(t, n, dim=a, largest=d)), [x], k=k, axis=axis, greatest=descending)
    w.case("sort", lambda t: tuple(torch.sort(t, dim=1, stable=True)), [rows], grad=False, axis=1, descending=False)
    w.case("sort", lambda t: tuple(torch.sort(t, dim=0, stable=True)), [torch.zeros(0, 2, dtype=torch.float64)], grad=False, axis=0, descending=False)
    for shape, axis in [([5], 0), ([3, 4], 1), ([4, 3], 0)]:
        w.case("median", lambda t, a=axis: t.median(dim=a).values, [f(*shape, distinct=True)], axis=axis)
    w.case("median", lambda t: t.median(dim=1).values, [rows], grad=False, axis=1)
    sorted_values = torch.tensor([-2.0, -0.5, 0.0, 0.0, 1.5, 3.0], dtype=torch.float64)
    for right in [False, True]:
        w.case("searchsorted", lambda s, v, r=right: torch.searchsorted(s, v, right=r), [sorted_values, torch.tensor([[-3.0, 0.0, 0.25], [3.0, 1.5, 9.0]], dtype=torch.float64)],
               grad=False, right=right)
    w.write()


GROUPS = [unary, binary, reduction, shape, indexed, linalg, convolution, pool, norm, attention, loss]

if __name__ == "__main__":
    (HERE / "cases").mkdir(exist_ok=True)
    torch.manual_seed(0)
    for group in GROUPS:
        group()
