#!/usr/bin/env python3
"""Ops of PyTorch beside ours, in eager mode on one thread: `survey.py BINARY [FILTER]` prints what is slowest first.

BINARY is what `cargo build --release -p thalweg-benches --bin survey` makes. Cases have the names and operands of `benches/src/survey.rs`. Both
sides take turns, each tied to one core, and the least of their rounds counts.
"""

import argparse
import math
import os
import subprocess
import sys
import time

SECONDS = 0.2  # for a case
ROUNDS = 2


def cases():
    import torch
    import torch.nn.functional as F

    r = torch.rand
    x, y, table, flat = r(1024, 1024), r(1024, 1024), r(4096, 1024), r(1 << 20)
    images, w, c = r(8, 64, 56, 56), r(64, 64, 3, 3), r(64)
    eighth, deep, heads = w[:, :8].contiguous(), r(32, 64, 3, 3, 3), r(8, 8, 256, 64)
    index, rows = torch.randint(0, 1024, (1024, 1024)), torch.randint(0, 4096, (4096,))
    wide, places = rows.reshape(-1, 1).expand(4096, 1024), torch.randint(0, 1 << 20, (1 << 20,))
    batch, double, row = x.reshape(64, 128, 128), x.double(), y[0]
    yield from {
        "add": lambda: x + y,
        "add_number": lambda: x + 1.0,
        "add_row": lambda: x + y[:1],
        "div": lambda: x / y,
        "where": lambda: torch.where(x > y, x, y),
        "masked_fill": lambda: x.masked_fill(x > 0.5, 0.0),
        "clamp": lambda: x.clamp(0.2, 0.8),
        "remainder": lambda: x.remainder(y),
        "pow": lambda: x.pow(y),
        "atan2": lambda: x.atan2(y),
        "hypot": lambda: x.hypot(y),
        "rsqrt": lambda: x.rsqrt(),
        "erf": lambda: x.erf(),
        "cos": lambda: x.cos(),
        "round": lambda: x.round(),
        "isnan": lambda: x.isnan(),
        "cast_f64": lambda: x.double(),
        "cast_i64": lambda: x.long(),
        "cast_i32": lambda: x.int(),
        "cast_u8": lambda: x.to(torch.uint8),
        "cast_bf16": lambda: x.bfloat16(),
        "cast_bool": lambda: x.bool(),
        "sum": lambda: x.sum(),
        "mean_0": lambda: x.mean(0),
        "mean_1": lambda: x.mean(1),
        "var_0": lambda: x.var(0),
        "var_1": lambda: x.var(1),
        "std": lambda: x.std(),
        "norm": lambda: x.norm(),
        "prod_1": lambda: x.prod(1),
        "max_0": lambda: x.amax(0),
        "argmax_0": lambda: x.argmax(0),
        "argmax_1": lambda: x.argmax(1),
        "any": lambda: (x > 2).any(),
        "logsumexp_1": lambda: x.logsumexp(1),
        "median_1": lambda: x.median(1),
        "cumsum_1": lambda: x.cumsum(1),
        "cumprod_1": lambda: x.cumprod(1),
        "cummax_1": lambda: x.cummax(1),
        "softmax_0": lambda: x.softmax(0),
        "softmax_1": lambda: x.softmax(1),
        "log_softmax_1": lambda: x.log_softmax(1),
        "layer_norm": lambda: F.layer_norm(x, (1024,)),
        "rms_norm": lambda: F.rms_norm(x, (1024,)),
        "batch_norm": lambda: F.batch_norm(images, c, c, c, c),
        "batch_norm_train": lambda: F.batch_norm(images, None, None, c, c, True),
        "group_norm": lambda: F.group_norm(images, 8, c, c),
        "instance_norm": lambda: F.instance_norm(images, weight=c, bias=c),
        "dropout": lambda: F.dropout(x, 0.5),
        "transpose": lambda: x.t().contiguous(),
        "channels_last": lambda: images.permute(0, 2, 3, 1).contiguous(),
        "channels_first": lambda: images.reshape(8, 56, 56, 64).permute(0, 3, 1, 2).contiguous(),
        "permute_3": lambda: batch.permute(2, 0, 1).contiguous(),
        "flip_1": lambda: x.flip(1),
        "roll": lambda: x.roll(100, 1),
        "tile": lambda: x.tile(2, 2),
        "concat_0": lambda: torch.cat([x, y], 0),
        "concat_1": lambda: torch.cat([x, y], 1),
        "stack_2": lambda: torch.stack([x, y], 2),
        "pad": lambda: F.pad(images, (1, 1, 1, 1)),
        "pad_reflect": lambda: F.pad(images, (1, 1, 1, 1), mode="reflect"),
        "tril": lambda: x.tril(),
        "repeat_interleave": lambda: x.repeat_interleave(2, 1),
        "gather_0": lambda: x.gather(0, index),
        "gather_1": lambda: x.gather(1, index),
        "index_select_0": lambda: table.index_select(0, rows),
        "take": lambda: flat.take(places),
        "scatter_add_0": lambda: table.scatter_add(0, wide, table),
        "index_add": lambda: table.index_add(0, rows, table),
        "embedding": lambda: F.embedding(rows, table),
        "one_hot": lambda: F.one_hot(rows, 4096),
        "nonzero": lambda: (x > 0.5).nonzero(),
        "masked_select": lambda: x.masked_select(x > 0.5),
        "unique": lambda: places.unique(),
        "bincount": lambda: places.bincount(),
        "searchsorted": lambda: torch.searchsorted(flat.sort()[0], flat),
        "sort_0": lambda: x.sort(0),
        "sort_1": lambda: x.sort(1),
        "sort_flat": lambda: flat.sort(),
        "sort_i64": lambda: places.sort(),
        "argsort_1": lambda: x.argsort(1),
        "topk_5": lambda: x.topk(5, 1),
        "rand": lambda: r(1024, 1024),
        "randn": lambda: torch.randn(1024, 1024),
        "randperm": lambda: torch.randperm(1 << 20),
        "interpolate_nearest": lambda: F.interpolate(images, scale_factor=2.0),
        "interpolate_linear": lambda: F.interpolate(images, scale_factor=2.0, mode="bilinear"),
        "conv": lambda: F.conv2d(images, w, padding=1),
        "conv_dilated": lambda: F.conv2d(images, w, padding=2, dilation=2),
        "conv_groups": lambda: F.conv2d(images, eighth, padding=1, groups=8),
        "conv_strided": lambda: F.conv2d(images, w, padding=1, stride=2),
        "conv_transpose": lambda: F.conv_transpose2d(images, w, stride=2, padding=1),
        "conv_1d": lambda: F.conv1d(images.reshape(8, 64, 3136), w.reshape(64, 64, 9), padding=4),
        "conv_3d": lambda: F.conv3d(images.reshape(2, 64, 4, 56, 56), deep, padding=1),
        "max_pool": lambda: F.max_pool2d(images, 2),
        "avg_pool": lambda: F.avg_pool2d(images, 3, 2, 1),
        "global_avg_pool": lambda: images.mean((2, 3)),
        "unfold": lambda: F.unfold(images, 3, padding=1),
        "matmul": lambda: x @ y,
        "matmul_transposed": lambda: x @ y.t(),
        "matmul_f64": lambda: double @ double,
        "matmul_batched": lambda: batch @ batch,
        "matmul_vector": lambda: x @ row,
        "einsum": lambda: torch.einsum("bij,bkj->bik", batch, batch),
        "outer": lambda: row.outer(row),
        "cdist": lambda: torch.cdist(x[:, :64], y[:, :64]),
        "attention": lambda: F.scaled_dot_product_attention(heads, heads, heads),
    }.items()
    names = "exp expm1 log log1p log2 sin tan asin atan sinh tanh sigmoid frac sign".split()
    yield from {name: lambda op=getattr(torch, name): op(x) for name in names}.items()
    names = "silu mish softplus hardswish".split()
    yield from {name: lambda op=getattr(F, name): op(x) for name in names}.items()
    names = "fmod maximum copysign logaddexp xlogy lt fmax".split()
    yield from {name: lambda op=getattr(torch, name): op(x, y) for name in names}.items()
    i, j = (x * 1000).long(), (y * 1000 + 1).long()
    d, e, h, k, f16 = x.double(), y.double(), x.bfloat16(), y.bfloat16(), x.half()
    yield from {
        "div_floor": lambda: torch.div(x, y, rounding_mode="floor"),
        "i64_add": lambda: i + j,
        "i64_mul": lambda: i * j,
        "i64_remainder": lambda: i.remainder(j),
        "i64_div_floor": lambda: torch.div(i, j, rounding_mode="floor"),
        "i64_sum": lambda: i.sum(),
        "i64_max_1": lambda: i.amax(1),
        "i64_eq": lambda: i == j,
        "f64_exp": lambda: d.exp(),
        "f64_add": lambda: d + e,
        "f64_sum_1": lambda: d.sum(1),
        "f64_softmax_1": lambda: d.softmax(1),
        "f64_sin": lambda: d.sin(),
        "f64_log": lambda: d.log(),
        "f64_pow": lambda: d.pow(e),
        "bf16_add": lambda: h + k,
        "bf16_gelu": lambda: F.gelu(h),
        "bf16_sum_1": lambda: h.sum(1),
        "bf16_softmax_1": lambda: h.softmax(1),
        "bf16_layer_norm": lambda: F.layer_norm(h, (1024,)),
        "bf16_matmul": lambda: h @ k,
        "f16_softmax_1": lambda: f16.softmax(1),
        "f16_exp": lambda: f16.exp(),
    }.items()
    bf16 = [t.bfloat16() for t in (images, w, r(256, 64, 1, 1), heads)]
    yield from {
        "bf16_conv": lambda: F.conv2d(bf16[0], bf16[1], padding=1),
        "bf16_conv_1x1": lambda: F.conv2d(bf16[0], bf16[2]),
        "bf16_depthwise": lambda: F.conv2d(bf16[0], bf16[1][:, :1], padding=1, groups=64),
        "bf16_batch_norm": lambda: F.batch_norm(bf16[0], c, c, c, c),
        "bf16_max_pool": lambda: F.max_pool2d(bf16[0], 2),
        "bf16_relu": lambda: bf16[0].relu(),
        "bf16_attention": lambda: F.scaled_dot_product_attention(bf16[3], bf16[3], bf16[3]),
        "bf16_linear": lambda: F.linear(h, k, k[0]),
        "bf16_transpose": lambda: h.t().contiguous(),
        "bf16_cast_f32": lambda: h.float(),
    }.items()
    classes = torch.randint(0, 1024, (1024,))
    five, seven, point = r(64, 1, 5, 5), r(64, 1, 7, 7), r(256, 64, 1, 1)
    few = x.reshape(4096, 16, 16)
    yield from {
        "depthwise_5": lambda: F.conv2d(images, five, padding=2, groups=64),
        "depthwise_7": lambda: F.conv2d(images, seven, padding=3, groups=64),
        "depthwise_5_strided": lambda: F.conv2d(images, five, padding=2, groups=64, stride=2),
        "conv_1x1": lambda: F.conv2d(images, point),
        "squeeze_excite": lambda: images * images.mean((2, 3)).sigmoid().reshape(8, 64, 1, 1),
        "pixel_shuffle": lambda: F.pixel_shuffle(images, 2),
        "channel_shuffle": lambda: F.channel_shuffle(images, 8),
        "fold": lambda: F.fold(F.unfold(images, 3, padding=1), 56, 3, padding=1),
        "interpolate_down": lambda: F.interpolate(images, scale_factor=0.5),
        "cross_entropy": lambda: F.cross_entropy(x, classes),
        "mse": lambda: F.mse_loss(x, x + 1),
        "huber": lambda: F.huber_loss(x, x + 1),
        "kl_div": lambda: F.kl_div(x, x, reduction="sum"),
        "cosine_similarity": lambda: F.cosine_similarity(x, x, 1),
        "normalize": lambda: F.normalize(x, dim=1),
        "rope": lambda: x * x + torch.cat([-x[:, 512:], x[:, :512]], 1) * x,
        "swiglu": lambda: F.silu(x[:, :512]) * x[:, 512:],
        "topk_100": lambda: x.topk(100, 1),
        "sort_with_indices": lambda: x.sort(1),
        "triangular": lambda: torch.linalg.solve_triangular(x, x, upper=False, unitriangular=True),
        "matmul_small": lambda: few @ few,
        "matmul_thin": lambda: x @ x[:, :4],
        "matmul_row": lambda: x[:1] @ x,
        "index_copy": lambda: x.index_copy(0, classes[:64], x[:64]),
    }.items()
    gradients = {
        "gelu": (x, lambda x: F.gelu(x)),
        "softmax": (x, lambda x: x.softmax(1) * y),
        "layer_norm": (x, lambda x: F.layer_norm(x, (1024,)) * y),
        "batch_norm": (images, lambda x: F.batch_norm(x, None, None, c, c, True).square()),
        "conv_weight": (w, lambda w: F.conv2d(images, w, padding=1)),
        "conv_input": (images, lambda x: F.conv2d(x, w, padding=1)),
        "depthwise_weight": (w[:, :1], lambda w: F.conv2d(images, w, padding=1, groups=64)),
        "max_pool": (images, lambda x: F.max_pool2d(x, 2)),
        "avg_pool": (images, lambda x: F.avg_pool2d(x, 2)),
        "interpolate": (images, lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
        "gather": (x, lambda x: x.gather(1, index)),
        "matmul": (x, lambda x: x @ y),
        "attention": (heads, lambda x: F.scaled_dot_product_attention(x, x, x)),
        "cumsum": (x, lambda x: x.cumsum(1) * y),
        "sort": (x, lambda x: x.sort(1)[0] * y),
        "topk": (x, lambda x: x.topk(5, 1)[0]),
        "where": (x, lambda x: torch.where(x > 0.5, x * 2, x)),
        "prod": (x, lambda x: x.prod(1)),
        "norm": (x, lambda x: x.norm()),
        "max": (x, lambda x: x.amax(1)),
        "logsumexp": (x, lambda x: x.logsumexp(1)),
        "bf16_matmul": (h, lambda h: h @ k),
        "bf16_conv": (bf16[0], lambda x: F.conv2d(x, bf16[1], padding=1)),
        "bf16_conv_weight": (bf16[1], lambda w: F.conv2d(bf16[0], w, padding=1)),
        "bf16_softmax": (h, lambda h: h.softmax(1) * k),
        "embedding": (x, lambda x: F.embedding(classes, x)),
        "cross_entropy": (x, lambda x: F.cross_entropy(x, classes)),
        "rms_norm": (x, lambda x: F.rms_norm(x, (1024,)) * x),
        "silu": (x, lambda x: F.silu(x)),
        "log_softmax": (x, lambda x: x.log_softmax(1) * x),
        "cumprod": (x, lambda x: x.cumprod(1)),
        "group_norm": (images, lambda x: F.group_norm(x, 8).square()),
        "depthwise_5": (images, lambda x: F.conv2d(x, five, padding=2, groups=64)),
        "conv_1x1": (point, lambda w: F.conv2d(images, w)),
        "pad_reflect": (images, lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
        "index_select": (x, lambda x: x.index_select(0, classes) * x),
        "cdist": (x[:, :64], lambda x: torch.cdist(x, x)),
    }
    for name, dtype in {"": torch.float32, "bf16_": torch.bfloat16, "f16_": torch.float16}.items():
        large = r(2048, 2048).to(dtype)
        for rows in (1, 2, 8):
            yield f"{name}rows_{rows}", lambda x=large[:rows], w=large: x @ w
            yield f"{name}rows_{rows}_linear", lambda x=large[:rows], w=large: F.linear(x, w)
    layer = torch.ao.nn.quantized.dynamic.Linear(2048, 2048)
    for rows in (1, 2, 8):
        yield f"i8_rows_{rows}_linear", lambda x=r(rows, 2048): layer(x)
    for name, dtype in {"decoder": torch.float32, "bf16_decoder": torch.bfloat16}.items():
        step = decoder(dtype)
        yield name, step
        compiled = torch.compile(step)
        yield f"{name}_jit", compiled
        yield f"{name}_donating", compiled
    for name, (at, op) in gradients.items():
        at = at.clone().contiguous().requires_grad_()
        yield f"grad_{name}", lambda at=at, op=op: torch.autograd.grad(op(at).sum(), at)


def decoder(dtype):
    """A token of the network of `benches/src/decoder.rs`; what is kept is written in place."""
    import torch
    import torch.nn.functional as F

    width, head, inner, words, positions = 512, 64, 1376, 32000, 1024
    new = lambda *shape: ((torch.rand(shape) - 0.5) * 0.05).to(dtype)
    shapes = [(width,), (width,), (width, width), (128, width), (128, width), (width, width)]
    shapes += [(inner, width), (inner, width), (width, inner)]
    layers = [([new(*shape) for shape in shapes], new(1, 2, positions, head), new(1, 2, positions, head)) for _ in range(8)]
    table, norm, scores = new(words, width), new(width), new(words, width)
    cos, sin = new(positions, head), new(positions, head)
    word, at, places = torch.tensor([7]), torch.tensor([900]), torch.arange(positions)

    @torch.inference_mode()
    def step():
        x, c, s, seen = F.embedding(word, table), cos[at], sin[at], (places <= at).view(1, 1, 1, -1)
        turned = lambda x: x * c + torch.cat([-x[..., head // 2 :], x[..., : head // 2]], -1) * s
        for (first, second, query, key, value, output, gate, up, down), keys, values in layers:
            y = F.rms_norm(x, (width,), first, 1e-5)
            keys.index_copy_(2, at, turned(F.linear(y, key).view(1, 2, 1, head)))
            values.index_copy_(2, at, F.linear(y, value).view(1, 2, 1, head))
            q = turned(F.linear(y, query).view(1, 8, 1, head))
            heads = F.scaled_dot_product_attention(q, keys, values, seen, enable_gqa=True)
            x = x + F.linear(heads.view(1, width), output)
            y = F.rms_norm(x, (width,), second, 1e-5)
            x = x + F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)
        return F.linear(F.rms_norm(x, (width,), norm, 1e-5), scores)

    return step


def peer(wanted):
    import torch

    torch.set_num_threads(1)
    for name, op in cases():
        if wanted not in name:
            continue
        for _ in range(4):
            start = time.perf_counter()
            op()
            once = time.perf_counter() - start
        times = []
        for _ in range(max(5, min(2000, int(SECONDS / once)))):
            start = time.perf_counter()
            op()
            times.append(time.perf_counter() - start)
        times.sort()
        print(name, f"{times[len(times) // 4] * 1e3:.4f}", flush=True)


def rows(command):
    env = {**os.environ, "THALWEG_CPU_THREADS": "1"}
    core = {max(os.sched_getaffinity(0))}
    tie = lambda: os.sched_setaffinity(0, core)
    out = subprocess.run(command, env=env, preexec_fn=tie, check=True, capture_output=True, text=True).stdout
    return {name: float(ms) for name, ms in map(str.split, out.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="ours, or `torch` for PyTorch's rows alone")
    parser.add_argument("filter", nargs="?", default="", help="cases with this text in their names")
    options = parser.parse_args()
    if options.binary == "torch":
        return peer(options.filter)
    ours, theirs = {}, {}
    for _ in range(ROUNDS):
        sides = [(ours, [options.binary, options.filter])]
        sides.append((theirs, [sys.executable, __file__, "torch", options.filter]))
        for all_of, command in sides:
            for name, ms in rows(command).items():
                all_of[name] = min(ms, all_of.get(name, ms))
    names = sorted(ours.keys() & theirs.keys(), key=lambda name: theirs[name] / ours[name])
    print("| op | PyTorch / ours | ours, ms | PyTorch, ms |\n|---|---|---|---|")
    for name in names:
        print(f"| {name} | {theirs[name] / ours[name]:.2f} | {ours[name]:.3f} | {theirs[name]:.3f} |")
    mean = math.exp(sum(math.log(theirs[name] / ours[name]) for name in names) / max(len(names), 1))
    print(f"\nGeometric mean of {len(names)} ops: {mean:.2f}")
    for name in ours.keys() ^ theirs.keys():
        print(f"{name} is on one side only")


if __name__ == "__main__":
    main()
