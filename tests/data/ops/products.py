"""Products, convolutions, pools."""

import torch
import torch.nn.functional as F

from writer import INF, NAN, Writer


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
