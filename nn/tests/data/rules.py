"""Updates of optimizers, limits on gradients, learning rates."""

import numpy
import torch
from torch import optim

from store import save

STEPS = 12


def lion(start, grads, lr=0.01, betas=(0.9, 0.99), weight_decay=0.0):
    """Algorithm 2 of Chen et al., Symbolic Discovery of Optimization Algorithms (2023); PyTorch has no Lion."""
    value, momentum, after = start.numpy().copy(), numpy.zeros_like(start.numpy()), []
    for grad in grads.numpy():
        direction = numpy.sign(betas[0] * momentum + (1 - betas[0]) * grad)
        value = value - lr * (direction + weight_decay * value)
        momentum = betas[1] * momentum + (1 - betas[1]) * grad
        after.append(value)
    return numpy.stack(after)


def optimizers():
    torch.manual_seed(2)
    start, grads = torch.randn(7, dtype=torch.float64), torch.randn(STEPS, 7, dtype=torch.float64)
    # An element whose gradient is always 0.
    grads[:, 3] = 0
    stored = {"start": start, "grads": grads}

    def case(name, kind, **options):
        value = start.clone().requires_grad_()
        optimizer = kind([value], **options)
        after = []
        for grad in grads:
            value.grad = grad.clone()
            optimizer.step()
            after.append(value.detach().clone())
        stored[f"{name}/step"] = torch.stack(after)

    case("sgd", optim.SGD, lr=0.1)
    case("sgd_decay", optim.SGD, lr=0.1, weight_decay=0.05)
    case("momentum", optim.SGD, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05)
    case("nesterov", optim.SGD, lr=0.1, momentum=0.8, nesterov=True)
    case("adam", optim.Adam, lr=0.05, betas=(0.8, 0.95), eps=1e-6)
    case("adam_decay", optim.Adam, lr=0.05, weight_decay=0.1)
    case("adamw", optim.AdamW, lr=0.05, weight_decay=0.2)
    case("rmsprop", optim.RMSprop, lr=0.02, alpha=0.9, weight_decay=0.1)
    case("rmsprop_centered", optim.RMSprop, lr=0.02, alpha=0.9, momentum=0.7, centered=True)
    case("adagrad", optim.Adagrad, lr=0.1, lr_decay=0.05, weight_decay=0.1)
    stored["lion/step"] = lion(start, grads)
    stored["lion_decay/step"] = lion(start, grads, betas=(0.8, 0.9), weight_decay=0.3)
    limits(stored, grads)
    scaler(stored, start, grads)
    save("optimizers", stored)


def limits(stored, grads):
    for name, clip in [("norm", lambda x: torch.nn.utils.clip_grad_norm_(x, 1.5)), ("loose_norm", lambda x: torch.nn.utils.clip_grad_norm_(x, 99)),
                       ("value", lambda x: torch.nn.utils.clip_grad_value_(x, 0.4))]:
        values = [torch.zeros(7, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        for value, grad in zip(values, grads):
            value.grad = grad.clone()
        clip(values)
        stored[f"clip_{name}"] = torch.stack([value.grad for value in values])


def scaler(stored, start, grads):
    """Scaled f32 gradients of which some are infinite: parameters and scale behind each step."""
    value = start.float().requires_grad_()
    optimizer = optim.SGD([value], lr=0.1, momentum=0.9)
    rule = torch.amp.GradScaler("cpu", init_scale=64.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)
    after, scales = [], []
    for at, grad in enumerate(grads.float()):
        factor = torch.inf if at in (2, 3, 8) else 1.0
        rule.scale((value * grad).sum()).backward()
        value.grad[0] *= factor
        rule.step(optimizer)
        rule.update()
        optimizer.zero_grad()
        after.append(value.detach().clone())
        scales.append(rule.get_scale())
    stored["scaler/step"], stored["scaler/scale"] = torch.stack(after), numpy.array(scales)


def schedules():
    s = optim.lr_scheduler
    stored = {}

    def case(name, make, steps=20):
        optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
        schedule, rates = make(optimizer), []
        for _ in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        stored[name] = numpy.array(rates)

    case("step", lambda o: s.StepLR(o, 3, 0.5))
    case("exponential", lambda o: s.ExponentialLR(o, 0.9))
    # The recursive form of PyTorch turns upwards behind its end.
    case("cosine", lambda o: s.CosineAnnealingLR(o, 12, 0.05), 12)
    case("restarts", lambda o: s.CosineAnnealingWarmRestarts(o, 4, 2, 0.05), 30)
    case("polynomial", lambda o: s.PolynomialLR(o, 10, 2.0))
    case("piecewise", lambda o: s.MultiStepLR(o, [4, 9], 0.1))
    case("warmup", lambda o: s.LinearLR(o, 1 / 5, 1.0, 4))
    case("one_cycle", lambda o: s.OneCycleLR(o, 0.4, 20, pct_start=0.3, div_factor=10.0, final_div_factor=100.0), 20)
    save("schedules", stored)
