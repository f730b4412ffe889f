"""Files of tensors."""

import pathlib

import numpy
import torch
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent


def save(name, tensors, dtype=None):
    """Writes tensors; `dtype` is that of all that are floating."""
    arrays = {}
    for key, value in tensors.items():
        value = value.detach().numpy() if isinstance(value, torch.Tensor) else numpy.asarray(value)
        if dtype is not None and value.dtype.kind == "f":
            value = value.astype(dtype)
        # Bytes come as they lie: views must be copied.
        arrays[key] = numpy.ascontiguousarray(value).reshape(value.shape)
    path = HERE / f"{name}.safetensors"
    save_file(arrays, path)
    print(f"{name}: {len(arrays)} tensors, {path.stat().st_size} bytes")


NAMES = {
    "weight_ih_l0": "cell.input_weight", "weight_hh_l0": "cell.hidden_weight", "bias_ih_l0": "cell.input_bias", "bias_hh_l0": "cell.hidden_bias",
    "out_proj": "output", "self_attn": "attention", "multihead_attn": "memory_attention",
    "linear1": "feed_forward.wide", "linear2": "feed_forward.narrow",
}


def ours(tensors, norms=("around_attention", "around_feed_forward")):
    """Parameters or gradients by PyTorch's names under the names that they have here."""
    named = {}
    for name, value in tensors.items():
        parts = name.split(".")
        if parts[-1] in ("in_proj_weight", "in_proj_bias"):
            kind = parts.pop().removeprefix("in_proj_")
            pieces = zip(("query", "key", "value"), value.chunk(3))
            named |= {".".join(map(translated(norms), [*parts, piece, kind])): part for piece, part in pieces}
        else:
            named[".".join(map(translated(norms), parts))] = value
    return named


def translated(norms):
    table = NAMES | {f"norm{at + 1}": f"{norm}.norm" for at, norm in enumerate(norms)}
    return lambda part: table.get(part, part)
