"""The form of a case; see `generate.py`."""

import math
import pathlib
import random

import torch

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


def special(*more):
    return torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 8.0, -8.0, INF, -INF, NAN, *more], dtype=torch.float64)
