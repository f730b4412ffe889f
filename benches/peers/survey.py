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
    }
    for name, (at, op) in gradients.items():
        at = at.clone().contiguous().requires_grad_()
        yield f"grad_{name}", lambda at=at, op=op: torch.autograd.grad(op(at).sum(), at)


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
