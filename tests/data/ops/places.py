"""Views, indices, order."""

import torch
import torch.nn.functional as F

from writer import INF, NAN, Writer


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
            w.case("sort", lambda t, a=axis, d=descending: torch.sort(t, dim=a, descending=d, stable=True).values, [x], axis=axis, descending=descending)
            w.case("sort_with_indices", lambda t, a=axis, d=descending: tuple(torch.sort(t, dim=a, descending=d, stable=True)), [x], axis=axis, descending=descending)
        w.case("argsort", lambda t, d=descending: torch.argsort(t, dim=0, descending=d, stable=True), [i(9, low=-2, high=2)], axis=0, descending=descending)
        for k, axis, shape in [(2, 1, [3, 5]), (3, 0, [4, 2]), (1, -1, [6])]:
            x = f(*shape, distinct=True)
            w.case("topk", lambda t, n=k, a=axis, d=descending: tuple(torch.topk(t, n, dim=a, largest=d)), [x], k=k, axis=axis, greatest=descending)
    w.case("sort", lambda t: torch.sort(t, dim=1, stable=True).values, [rows], grad=False, axis=1, descending=False)
    w.case("sort_with_indices", lambda t: tuple(torch.sort(t, dim=1, stable=True)), [rows], grad=False, axis=1, descending=False)
    w.case("sort", lambda t: torch.sort(t, dim=0, stable=True).values, [torch.zeros(0, 2, dtype=torch.float64)], grad=False, axis=0, descending=False)
    w.case("sort_with_indices", lambda t: tuple(torch.sort(t, dim=0, stable=True)), [torch.zeros(0, 2, dtype=torch.float64)], grad=False, axis=0, descending=False)
    for shape, axis in [([5], 0), ([3, 4], 1), ([4, 3], 0)]:
        w.case("median", lambda t, a=axis: t.median(dim=a).values, [f(*shape, distinct=True)], axis=axis)
    w.case("median", lambda t: t.median(dim=1).values, [rows], grad=False, axis=1)
    sorted_values = torch.tensor([-2.0, -0.5, 0.0, 0.0, 1.5, 3.0], dtype=torch.float64)
    for right in [False, True]:
        w.case("searchsorted", lambda s, v, r=right: torch.searchsorted(s, v, right=r), [sorted_values, torch.tensor([[-3.0, 0.0, 0.25], [3.0, 1.5, 9.0]], dtype=torch.float64)],
               grad=False, right=right)
    w.write()
