"""Normalization, attention, losses."""

import torch
import torch.nn.functional as F

from writer import INF, NAN, Writer


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
