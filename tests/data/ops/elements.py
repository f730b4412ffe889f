"""Functions of elements, and reductions."""

import itertools
import math

import torch
import torch.nn.functional as F

from writer import INF, NAMES, NAN, Writer, special


def unary():
    w = Writer("unary")
    real = {
        "neg": torch.neg, "abs": torch.abs, "sign": lambda x: torch.where(x.isnan(), x, x.sign()) if x.dtype.is_floating_point else x.sign(), "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc,
        "round": torch.round, "sqrt": (torch.sqrt, 0.25), "exp": torch.exp, "expm1": torch.expm1, "log": (torch.log, 0.25),
        "log1p": (torch.log1p, -0.75), "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "tan": (torch.tan, -1, 1),
        "asin": (torch.asin, -0.875, 0.875), "acos": (torch.acos, -0.875, 0.875), "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
        "asinh": torch.asinh, "acosh": (torch.acosh, 1.25), "atanh": (torch.atanh, -0.875, 0.875), "sigmoid": torch.sigmoid,
        "logsigmoid": F.logsigmoid, "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)), "softsign": F.softsign, "relu": F.relu,
        "relu6": F.relu6, "hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1), "hardswish": F.hardswish, "selu": F.selu, "silu": F.silu, "mish": F.mish, "gelu": F.gelu,
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
        w.case(name, call, [x], at_tol=tol, grad=name not in ["sign", "floor", "ceil", "trunc", "round"])
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
    cbrt = lambda t: torch.copysign(t.abs().pow(1 / 3), t)
    w.case("cbrt", cbrt, [special()], grad=False, at_tol=8)
    w.case("cbrt", cbrt, [torch.tensor([-2.9375, -1.0, -0.4375, 0.0625, 0.375, 1.5625, 2.0, 27.0], dtype=torch.float64)], at_tol=8)
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
    # By a tensor: by the number 0.5 PyTorch takes the root, which differs from pow at -inf.
    for exponent in [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 2.5]:
        w.case("pow_scalar", lambda t, e=exponent: torch.pow(t, torch.full_like(t, e)), [f(5, low=0.25)], value=exponent, at_tol=64)
        w.case("pow_scalar", lambda t, e=exponent: torch.pow(t, torch.full_like(t, e)), [special()], grad=False, value=exponent, at_tol=64)
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
        rows = torch.tensor([[1, NAN, 2], [INF, 1, -INF], [-INF, -INF, -INF], [0, 0, 0], [NAN, NAN, INF]], dtype=torch.float64)
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
