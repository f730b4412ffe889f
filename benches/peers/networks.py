"""The networks of `zoo.py` for the peers: training steps with plain descent, inference with fixed weights.

`reference` runs one in f64 with NumPy; `torch`, `jax` and `onnxruntime` make calls of it as their users do.
"""

import numpy as np
from obvious import HEADS, NumPy
from zoo import OPS

RATE = 1e-3


def classes(x):
    """The targets of a training step on an input: one for each image or sentence, or for each word."""
    return np.arange(x.size if x.dtype.kind == "i" else len(x)) * 7 % 10


def reference(op):
    """inputs -> the outputs, or the loss of a step before its update, in f64."""
    parameters, forward = OPS[op]

    def answer(x):
        wide = {name: value.astype(np.float64) for name, value in parameters().items()}
        y = forward(NumPy, wide, x if x.dtype.kind == "i" else x.astype(np.float64))
        if not op.endswith("_step"):
            return y
        peak = y.max(1)
        loss = np.log(np.exp(y - peak[:, None]).sum(1)) + peak - y[np.arange(len(y)), classes(x)]
        return loss.mean()

    return answer


def torch(op, inputs, compiled, device="cpu"):
    import torch
    import torch.nn.functional as F

    class Torch:
        relu, linear, add, mean_space = F.relu, F.linear, torch.add, staticmethod(lambda x: x.mean((2, 3)))
        mean_positions, mean_times = staticmethod(lambda x: x.mean(1)), staticmethod(lambda x: x.mean(2))
        dilated = staticmethod(lambda x, w, b, by: F.conv1d(x, w, b, padding=by * (w.shape[2] - 1) // 2, dilation=by))
        flatten = staticmethod(lambda x: x.flatten(1))
        gelu = staticmethod(F.gelu)
        relu6, rows = staticmethod(F.relu6), staticmethod(lambda table, x: F.embedding(x, table))
        concat = staticmethod(lambda a, b: torch.cat([a, b], 1))
        joined_positions = staticmethod(lambda x: x.flatten(0, 1))
        mul = scaled = staticmethod(torch.mul)
        sigmoid, silu = staticmethod(torch.sigmoid), staticmethod(F.silu)
        pooled = staticmethod(lambda x: F.adaptive_avg_pool2d(x, 1))
        channels_last = staticmethod(lambda x: x.permute(0, 2, 3, 1))
        channels_first = staticmethod(lambda x: x.permute(0, 3, 1, 2))
        places = staticmethod(lambda x: x.flatten(2).transpose(1, 2))
        grid = staticmethod(lambda x, rows: x.transpose(1, 2).unflatten(2, (rows, rows)))
        twice = staticmethod(lambda x: F.interpolate(x, scale_factor=2))
        group_norm = staticmethod(lambda x, scale, shift, groups: F.group_norm(x, groups, scale, shift))
        reshape = staticmethod(lambda x, *shape: x.reshape(shape))
        permute = staticmethod(lambda x, *order: x.permute(order))
        channels = staticmethod(lambda x, start, stop: x[:, start:stop])
        item = staticmethod(lambda x, at: x[at])
        roll = staticmethod(lambda x, by: torch.roll(x, (by, by), (1, 2)))
        masked = staticmethod(lambda scores, mask: scores if mask is None else scores + torch.from_numpy(mask))
        product = staticmethod(F.linear)
        mean_grid = staticmethod(lambda x: x.mean((1, 2)))
        halved = staticmethod(lambda x: F.avg_pool2d(x, 2))
        seen = staticmethod(lambda q, k, v, scores, scale: F.scaled_dot_product_attention(q, k, v, scores, scale=scale))
        conv_up = staticmethod(lambda x, w, b: F.conv_transpose2d(x, w, b, 2))
        conv = staticmethod(
            lambda x, w, b, stride, padding, groups=1: F.conv2d(x, w, b, stride, padding, groups=groups)
        )
        max_pool = staticmethod(lambda x, taps, stride, padding: F.max_pool2d(x, taps, stride, padding))
        batch_norm = staticmethod(
            lambda x, scale, shift, mean, var: F.batch_norm(x, mean, var, scale, shift, training=mean is None)
        )
        layer_norm = staticmethod(lambda x, scale, shift: F.layer_norm(x, scale.shape, scale, shift))

        @staticmethod
        def attention(q, k, v, causal=False):
            split = lambda t: t.unflatten(2, (HEADS, -1)).transpose(1, 2)
            heads = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=causal)
            return heads.transpose(1, 2).flatten(2)

        @staticmethod
        def lstm(x, *weights):
            start = x.new_zeros(1, len(x), weights[1].shape[1])
            return torch.lstm(x, (start, start), weights, True, 1, 0.0, True, False, True)[0]

        @staticmethod
        def gru(x, *weights):
            start = x.new_zeros(1, len(x), weights[1].shape[1])
            return torch.gru(x, start, weights, True, 1, 0.0, True, False, True)[0]

    parameters, forward = OPS[op]
    p = {name: torch.from_numpy(value).to(device) for name, value in parameters().items()}
    x = torch.from_numpy(inputs[0]).to(device)
    if not op.endswith("_step"):
        run = lambda x: forward(Torch, p, x)
        run = torch.compile(run, dynamic=False) if compiled else run

        @torch.inference_mode()
        def infer():
            return run(x)

        return infer, lambda y: y.numpy(force=True)

    y = torch.from_numpy(classes(inputs[0])).to(device)
    values = list(p.values())
    for value in values:
        value.requires_grad_()
    loss_of = lambda x: F.cross_entropy(forward(Torch, p, x), y)
    loss_of = torch.compile(loss_of, dynamic=False) if compiled else loss_of

    def step():
        loss = loss_of(x)
        gradients = torch.autograd.grad(loss, values)
        with torch.no_grad():
            torch._foreach_add_(values, gradients, alpha=-RATE)
        return loss.detach()

    return step, lambda loss: loss.numpy(force=True)


def jax(op, inputs):
    import jax
    import jax.numpy as jnp

    def conv(x, w, b, stride, padding, groups=1):
        sides = [(padding, padding)] * 2
        y = jax.lax.conv_general_dilated(x, w, (stride, stride), sides, feature_group_count=groups)
        return y if b is None else y + b[:, None, None]

    def dilated(x, w, b, by):
        side = by * (w.shape[2] - 1) // 2
        return jax.lax.conv_general_dilated(x, w, (1,), [(side, side)], rhs_dilation=(by,)) + b[:, None]

    def max_pool(x, taps, stride, padding):
        sides = [(0, 0)] * 2 + [(padding, padding)] * 2
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, taps, taps), (1, 1, stride, stride), sides)

    def batch_norm(x, scale, shift, mean, var):
        if mean is None:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
        factor = scale * jax.lax.rsqrt(var + 1e-5)
        return x * factor[:, None, None] + (shift - mean * factor)[:, None, None]

    def attention(q, k, v, causal=False):
        split = lambda t: t.reshape(*t.shape[:2], HEADS, -1)
        return jax.nn.dot_product_attention(split(q), split(k), split(v), is_causal=causal).reshape(q.shape)

    def conv_up(x, w, b):
        y = jnp.einsum("nchw,cdij->ndhiwj", x, w)
        return y.reshape(*y.shape[:2], 2 * x.shape[2], 2 * x.shape[3]) + b[:, None, None]

    def lstm(x, input, hidden, input_bias, hidden_bias):
        def position(state, x):
            h, c = state
            i, f, g, o = jnp.split(x + h @ hidden.T, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((len(x), hidden.shape[1]))
        gates = (x @ input.T + input_bias + hidden_bias).swapaxes(0, 1)
        return jax.lax.scan(position, (start, start), gates)[1].swapaxes(0, 1)

    def gru(x, input, hidden, input_bias, hidden_bias):
        def position(h, x):
            r, z, n = jnp.split(x, 3, 1)
            hr, hz, hn = jnp.split(h @ hidden.T + hidden_bias, 3, 1)
            r, z = jax.nn.sigmoid(r + hr), jax.nn.sigmoid(z + hz)
            h = (1 - z) * jnp.tanh(n + r * hn) + z * h
            return h, h

        start = jnp.zeros((len(x), hidden.shape[1]))
        gates = (x @ input.T + input_bias).swapaxes(0, 1)
        return jax.lax.scan(position, start, gates)[1].swapaxes(0, 1)

    def group_norm(x, scale, shift, groups):
        y = x.reshape(len(x), groups, -1)
        y = (y - y.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)
        return y.reshape(x.shape) * scale[:, None, None] + shift[:, None, None]

    def halved(x):
        return x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).mean((3, 5))

    def seen(q, k, v, scores, scale):
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) * scale + scores) @ v

    class Jax:
        pass

    for name, value in {
        "relu": jax.nn.relu,
        "relu6": jax.nn.relu6,
        "rows": lambda table, x: table[x],
        "concat": lambda a, b: jnp.concatenate([a, b], 1),
        "joined_positions": lambda x: x.reshape(-1, x.shape[2]),
        "conv_up": conv_up,
        "linear": lambda x, w, b: x @ w.T + b,
        "add": jnp.add,
        "flatten": lambda x: x.reshape(len(x), -1),
        "mean_space": lambda x: x.mean((2, 3)),
        "mean_positions": lambda x: x.mean(1),
        "mean_times": lambda x: x.mean(2),
        "dilated": dilated,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "layer_norm": lambda x, scale, shift: (x - x.mean(-1, keepdims=True))
        * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift,
        "conv": conv,
        "max_pool": max_pool,
        "batch_norm": batch_norm,
        "attention": attention,
        "lstm": lstm,
        "gru": gru,
        "group_norm": group_norm,
        "mul": jnp.multiply,
        "scaled": jnp.multiply,
        "sigmoid": jax.nn.sigmoid,
        "silu": jax.nn.silu,
        "pooled": lambda x: x.mean((2, 3), keepdims=True),
        "channels_last": lambda x: x.transpose(0, 2, 3, 1),
        "channels_first": lambda x: x.transpose(0, 3, 1, 2),
        "places": lambda x: x.reshape(*x.shape[:2], -1).swapaxes(1, 2),
        "grid": lambda x, rows: x.swapaxes(1, 2).reshape(len(x), -1, rows, rows),
        "twice": lambda x: x.repeat(2, 2).repeat(2, 3),
        "reshape": lambda x, *shape: x.reshape(shape),
        "permute": lambda x, *order: x.transpose(order),
        "channels": lambda x, start, stop: x[:, start:stop],
        "item": lambda x, at: x[at],
        "roll": lambda x, by: jnp.roll(x, (by, by), (1, 2)),
        "masked": lambda scores, mask: scores if mask is None else scores + mask,
        "product": lambda x, w: x @ w.T,
        "mean_grid": lambda x: x.mean((1, 2)),
        "halved": halved,
        "seen": seen,
    }.items():
        setattr(Jax, name, staticmethod(value))

    parameters, forward = OPS[op]
    p = {name: jnp.asarray(value) for name, value in parameters().items()}
    x = jnp.asarray(inputs[0])
    if not op.endswith("_step"):
        run = jax.jit(lambda p, x: forward(Jax, p, x))
        return lambda: run(p, x).block_until_ready(), np.asarray

    y = jnp.asarray(classes(inputs[0]))

    def loss_of(p, x):
        logits = jax.nn.log_softmax(forward(Jax, p, x))
        return -jnp.take_along_axis(logits, y[:, None], 1).mean()

    def update(p, x):
        loss, gradients = jax.value_and_grad(loss_of)(p, x)
        return jax.tree.map(lambda value, gradient: value - RATE * gradient, p, gradients), loss

    compiled = jax.jit(update, donate_argnums=0)
    state = [p]

    def step():
        state[0], loss = compiled(state[0], x)
        jax.block_until_ready(state[0])
        return loss

    return step, np.asarray


class _Onnx:
    """Builds nodes; what it hands about are names."""

    def __init__(self, helper, numpy_helper):
        self.helper, self.numpy_helper, self.nodes, self.constants = helper, numpy_helper, [], []
        self.widths = {}  # of what `linear` made

    def node(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, [i or "" for i in inputs], [name], **attributes))
        return name

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(value, name))
        return name

    relu = lambda self, x: self.node("Relu", x)
    relu6 = lambda self, x: self.node("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))
    add = lambda self, a, b: self.node("Add", a, b)
    flatten = lambda self, x: self.node("Flatten", x, axis=1)
    gelu = lambda self, x: self.node("Gelu", x)
    pooled = lambda self, x: self.node("GlobalAveragePool", x)
    mean_space = lambda self, x: self.flatten(self.pooled(x))
    mul = lambda self, a, b: self.node("Mul", a, b)
    scaled = lambda self, x, by: self.node("Mul", x, self.constant(by))
    sigmoid = lambda self, x: self.node("Sigmoid", x)
    silu = lambda self, x: self.mul(x, self.sigmoid(x))
    concat = lambda self, a, b: self.node("Concat", a, b, axis=1)
    channels_last = lambda self, x: self.node("Transpose", x, perm=[0, 2, 3, 1])
    channels_first = lambda self, x: self.node("Transpose", x, perm=[0, 3, 1, 2])

    permute = lambda self, x, *order: self.node("Transpose", x, perm=order)
    reshape = lambda self, x, *shape: self.node("Reshape", x, self.constant(np.array(shape)))
    channels = lambda self, x, start, stop: self.part(x, start, stop, 1)
    item = lambda self, x, at: self.node("Gather", x, self.constant(np.array(at)), axis=0)
    masked = lambda self, scores, mask: self.constant(scores if mask is None else scores + mask)
    product = lambda self, x, w: self.node("MatMul", x, self.constant(np.ascontiguousarray(w.T)))
    mean_grid = lambda self, x: self.node("ReduceMean", x, self.constant(np.array([1, 2])), keepdims=0)
    halved = lambda self, x: self.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])

    mean_times = lambda self, x: self.node("ReduceMean", x, self.constant(np.array([2])), keepdims=0)

    def dilated(self, x, w, b, by):
        side = by * (w.shape[2] - 1) // 2
        return self.node("Conv", x, self.constant(w), self.constant(b), pads=[side] * 2, dilations=[by])

    def part(self, x, start, stop, axis):
        return self.node("Slice", x, *(self.constant(np.array([at])) for at in (start, stop, axis)))

    def roll(self, x, by):
        for axis in (1, 2):
            tail, head = self.part(x, -by, 1 << 30, axis), self.part(x, 0, -by, axis)
            x = self.node("Concat", tail, head, axis=axis)
        return x

    def seen(self, q, k, v, scores, scale):
        products = self.node("MatMul", q, self.permute(k, 0, 1, 2, 4, 3))
        weights = self.node("Softmax", self.add(self.scaled(products, np.float32(scale)), scores), axis=-1)
        return self.node("MatMul", weights, v)

    def places(self, x):
        return self.node("Transpose", self.node("Reshape", x, self.constant(np.array([0, 0, -1]))), perm=[0, 2, 1])

    def grid(self, x, rows):
        return self.node("Reshape", self.node("Transpose", x, perm=[0, 2, 1]), self.constant(np.array([0, 0, rows, rows])))

    def twice(self, x):
        return self.node("Resize", x, None, self.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")

    def group_norm(self, x, scale, shift, groups):
        """As exporters write it for opset 20."""
        ones, zeros = self.constant(np.ones(groups, np.float32)), self.constant(np.zeros(groups, np.float32))
        y = self.node("Reshape", x, self.constant(np.array([0, groups, -1])))
        y = self.node("Reshape", self.node("InstanceNormalization", y, ones, zeros, epsilon=1e-5), self.node("Shape", x))
        return self.add(self.scaled(y, scale[:, None, None]), self.constant(shift[:, None, None]))

    def linear(self, x, w, b):
        y = self.add(self.node("MatMul", x, self.constant(np.ascontiguousarray(w.T))), self.constant(b))
        self.widths[y] = len(w)
        return y

    def conv(self, x, w, b, stride, padding, groups=1):
        inputs = [x, self.constant(w)] + ([] if b is None else [self.constant(b)])
        return self.node("Conv", *inputs, strides=[stride] * 2, pads=[padding] * 4, group=groups)

    def max_pool(self, x, taps, stride, padding):
        return self.node("MaxPool", x, kernel_shape=[taps] * 2, strides=[stride] * 2, pads=[padding] * 4)

    def batch_norm(self, x, *values):
        return self.node("BatchNormalization", x, *map(self.constant, values), epsilon=1e-5)

    def layer_norm(self, x, scale, shift):
        return self.node("LayerNormalization", x, self.constant(scale), self.constant(shift), epsilon=1e-5)

    def attention(self, q, k, v):
        shape = self.constant(np.array([0, 0, HEADS, -1]))
        split = lambda t, perm: self.node("Transpose", self.node("Reshape", t, shape), perm=perm)
        scores = self.node("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]))
        scale = self.constant(np.float32(self.widths[q] // HEADS) ** -0.5)
        weights = self.node("Softmax", self.node("Mul", scores, scale), axis=-1)
        heads = self.node("Transpose", self.node("MatMul", weights, split(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        return self.node("Reshape", heads, self.constant(np.array([0, 0, -1])))


def onnxruntime(op, inputs, session_of):
    """Inference only: the wheel has no training."""
    if op.endswith("_step"):
        return None
    from onnx import TensorProto, helper, numpy_helper

    parameters, forward = OPS[op]
    f = _Onnx(helper, numpy_helper)
    result = forward(f, parameters(), "x0")
    f.nodes.append(helper.make_node("Identity", [result], ["y"]))
    graph = helper.make_graph(
        f.nodes,
        op,
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, inputs[0].shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        f.constants,
    )
    return session_of(graph, inputs)
