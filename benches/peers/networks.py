"""The networks of `benches/src/networks.rs` for the peers: training steps with plain descent, inference with fixed weights.

`OPS[op]` is (parameters, forward): arrays by name, and the network in terms of a library's few functions `f`.
`reference` runs it in f64 with NumPy; `torch`, `jax` and `onnxruntime` make calls of it as their users do.
"""

import numpy as np

RATE = 1e-3
HEADS = 6
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def _drawn(shapes):
    """Parameters of variance 1 / fan-in; what is one-dimensional is a bias, or a scale near 1."""
    rng = np.random.default_rng(1)
    parameters = {}
    for name, shape in shapes:
        drawn = rng.standard_normal(shape, dtype=np.float32)
        if len(shape) > 1:
            parameters[name] = drawn / np.float32(np.sqrt(np.prod(shape[1:])))
        else:
            near_one = name.endswith((".scale", ".var"))
            parameters[name] = np.float32(0.05) * drawn + np.float32(near_one)
    return parameters


def _dense(name, inputs, outputs):
    return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,))]


def _mlp_parameters():
    return _drawn(_dense("0", 784, 512) + _dense("1", 512, 10))


def _mlp(f, p, x):
    return f.linear(f.relu(f.linear(x, p["0.weight"], p["0.bias"])), p["1.weight"], p["1.bias"])


def _lenet_parameters():
    convs = [("c0.weight", (6, 1, 5, 5)), ("c0.bias", (6,)), ("c1.weight", (16, 6, 5, 5)), ("c1.bias", (16,))]
    return _drawn(convs + _dense("0", 400, 120) + _dense("1", 120, 84) + _dense("2", 84, 10))


def _lenet(f, p, x):
    x = f.max_pool(f.relu(f.conv(x, p["c0.weight"], p["c0.bias"], 1, 2)), 2, 2, 0)
    x = f.max_pool(f.relu(f.conv(x, p["c1.weight"], p["c1.bias"], 1, 0)), 2, 2, 0)
    x = f.flatten(x)
    for layer in "01":
        x = f.relu(f.linear(x, p[f"{layer}.weight"], p[f"{layer}.bias"]))
    return f.linear(x, p["2.weight"], p["2.bias"])


def _resnet_convs():
    """Name, inputs, outputs, taps and stride of each convolution."""
    yield "stem", 3, 64, 7, 2
    inputs = 64
    for stage, (outputs, first) in enumerate(STAGES):
        for block, stride in enumerate((first, 1)):
            name = f"{stage}.{block}"
            yield f"{name}.a", inputs, outputs, 3, stride
            yield f"{name}.b", outputs, outputs, 3, 1
            if inputs != outputs:
                yield f"{name}.p", inputs, outputs, 1, stride
            inputs = outputs


def _resnet_parameters(statistics=("mean", "var")):
    shapes = []
    for name, inputs, outputs, taps, _ in _resnet_convs():
        shapes.append((f"{name}.weight", (outputs, inputs, taps, taps)))
        shapes += [(f"{name}.{part}", (outputs,)) for part in ("scale", "shift", *statistics)]
    return _drawn(shapes + _dense("classes", 512, 1000))


def _resnet(f, p, x):
    """Without running statistics batches are normalised by their own."""
    convs = {name: (taps, stride) for name, _, _, taps, stride in _resnet_convs()}

    def conv(name, x):
        taps, stride = convs[name]
        y = f.conv(x, p[f"{name}.weight"], None, stride, taps // 2)
        return f.batch_norm(y, *(p.get(f"{name}.{part}") for part in ("scale", "shift", "mean", "var")))

    x = f.max_pool(f.relu(conv("stem", x)), 3, 2, 1)
    for stage in range(len(STAGES)):
        for block in range(2):
            name = f"{stage}.{block}"
            y = conv(f"{name}.b", f.relu(conv(f"{name}.a", x)))
            x = f.relu(f.add(y, conv(f"{name}.p", x) if f"{name}.p" in convs else x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


def _encoder_parameters():
    shapes = []
    for layer in range(6):
        for part in "qkvo":
            shapes += _dense(f"{layer}.{part}", 384, 384)
        shapes += _dense(f"{layer}.wide", 384, 1536) + _dense(f"{layer}.narrow", 1536, 384)
        shapes += [(f"{layer}.n{i}.{part}", (384,)) for i in "12" for part in ("scale", "shift")]
    return _drawn(shapes)


def _encoder(f, p, x):
    def linear(name, x):
        return f.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(name, x):
        return f.layer_norm(x, p[f"{name}.scale"], p[f"{name}.shift"])

    for layer in range(6):
        heads = f.attention(*(linear(f"{layer}.{part}", x) for part in "qkv"))
        x = norm(f"{layer}.n1", f.add(x, linear(f"{layer}.o", heads)))
        x = norm(f"{layer}.n2", f.add(x, linear(f"{layer}.narrow", f.gelu(linear(f"{layer}.wide", x)))))
    return x


def _classified_parameters():
    return _encoder_parameters() | _drawn(_dense("classes", 384, 10))


def _classified(f, p, x):
    return f.linear(f.mean_positions(_encoder(f, p, x)), p["classes.weight"], p["classes.bias"])


def _lstm_parameters():
    cell = [("0.input", (1024, 128)), ("0.hidden", (1024, 256)), ("0.input_bias", (1024,)), ("0.hidden_bias", (1024,))]
    return _drawn(cell + _dense("1", 256, 10))


def _lstm(f, p, x):
    y = f.lstm(x, p["0.input"], p["0.hidden"], p["0.input_bias"], p["0.hidden_bias"])
    return f.linear(f.mean_positions(y), p["1.weight"], p["1.bias"])


MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
WORDS, POSITIONS, WIDTH = 8192, 256, 384


def _mobilenet_convs():
    """Name, inputs, outputs, taps, stride and groups of each convolution; a block's parts have one prefix."""
    yield "stem", 3, 32, 3, 2, 1
    inputs = 32
    for stage, (ratio, outputs, count, first) in enumerate(MOBILENET):
        for block in range(count):
            name, hidden = f"{stage}.{block}", inputs * ratio
            if ratio > 1:
                yield f"{name}.wide", inputs, hidden, 1, 1, 1
            yield f"{name}.channels", hidden, hidden, 3, first if block == 0 else 1, hidden
            yield f"{name}.narrow", hidden, outputs, 1, 1, 1
            inputs = outputs
    yield "last", inputs, 1280, 1, 1, 1


def _mobilenet_parameters(statistics=("mean", "var")):
    shapes = []
    for name, inputs, outputs, taps, _, groups in _mobilenet_convs():
        shapes.append((f"{name}.weight", (outputs, inputs // groups, taps, taps)))
        shapes += [(f"{name}.{part}", (outputs,)) for part in ("scale", "shift", *statistics)]
    return _drawn(shapes + _dense("classes", 1280, 1000))


def _mobilenet(f, p, x):
    convs = {name: rest for name, *rest in _mobilenet_convs()}

    def conv(name, x):
        _, _, taps, stride, groups = convs[name]
        y = f.conv(x, p[f"{name}.weight"], None, stride, taps // 2, groups)
        return f.batch_norm(y, *(p.get(f"{name}.{part}") for part in ("scale", "shift", "mean", "var")))

    x = f.relu6(conv("stem", x))
    for stage, (_, _, count, _) in enumerate(MOBILENET):
        for block in range(count):
            name = f"{stage}.{block}"
            y = f.relu6(conv(f"{name}.wide", x)) if f"{name}.wide" in convs else x
            y = conv(f"{name}.narrow", f.relu6(conv(f"{name}.channels", y)))
            x = f.add(y, x) if block else y
    x = f.relu6(conv("last", x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


def _gpt_parameters():
    shapes = [("words", (WORDS, WIDTH)), ("places", (POSITIONS, WIDTH))]
    for layer in range(4):
        for part in "qkvo":
            shapes += _dense(f"{layer}.{part}", WIDTH, WIDTH)
        shapes += _dense(f"{layer}.wide", WIDTH, 4 * WIDTH) + _dense(f"{layer}.narrow", 4 * WIDTH, WIDTH)
        shapes += [(f"{layer}.n{i}.{part}", (WIDTH,)) for i in "12" for part in ("scale", "shift")]
    norm = [(f"norm.{part}", (WIDTH,)) for part in ("scale", "shift")]
    return _drawn(shapes + norm + _dense("scores", WIDTH, WORDS))


def _gpt(f, p, x):
    def linear(name, x):
        return f.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(name, x):
        return f.layer_norm(x, p[f"{name}.scale"], p[f"{name}.shift"])

    x = f.add(f.rows(p["words"], x), p["places"])
    for layer in range(4):
        y = norm(f"{layer}.n1", x)
        x = f.add(x, linear(f"{layer}.o", f.attention(*(linear(f"{layer}.{part}", y) for part in "qkv"), causal=True)))
        x = f.add(x, linear(f"{layer}.narrow", f.gelu(linear(f"{layer}.wide", norm(f"{layer}.n2", x)))))
    return f.joined_positions(linear("scores", norm("norm", x)))


UNET = (("down0", 3, 32), ("down1", 32, 64), ("bottom", 64, 128), ("joined0", 128, 64), ("joined1", 64, 32))


def _unet_parameters():
    shapes = []
    for name, inputs, outputs in UNET:
        shapes.append((f"{name}.weight", (outputs, inputs, 3, 3)))
        shapes += [(f"{name}.{part}", (outputs,)) for part in ("scale", "shift")]
    for name, inputs, outputs in (("up0", 128, 64), ("up1", 64, 32)):
        shapes += [(f"{name}.weight", (inputs, outputs, 2, 2)), (f"{name}.bias", (outputs,))]
    return _drawn(shapes + _dense("classes", 32, 10))


def _unet(f, p, x):
    def block(name, x):
        y = f.conv(x, p[f"{name}.weight"], None, 1, 1)
        return f.relu(f.batch_norm(y, p[f"{name}.scale"], p[f"{name}.shift"], None, None))

    def up(name, x):
        return f.conv_up(x, p[f"{name}.weight"], p[f"{name}.bias"])

    wide = block("down0", x)
    narrow = block("down1", f.max_pool(wide, 2, 2, 0))
    x = block("bottom", f.max_pool(narrow, 2, 2, 0))
    x = block("joined0", f.concat(up("up0", x), narrow))
    x = block("joined1", f.concat(up("up1", x), wide))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


OPS = {
    "mlp_step": (_mlp_parameters, _mlp),
    "lenet5_step": (_lenet_parameters, _lenet),
    "resnet18": (_resnet_parameters, _resnet),
    "resnet18_step": (lambda: _resnet_parameters(()), _resnet),
    "encoder6": (_encoder_parameters, _encoder),
    "encoder6_step": (_classified_parameters, _classified),
    "lstm_step": (_lstm_parameters, _lstm),
    "mobilenet": (_mobilenet_parameters, _mobilenet),
    "mobilenet_step": (lambda: _mobilenet_parameters(()), _mobilenet),
    "gpt_step": (_gpt_parameters, _gpt),
    "unet_step": (_unet_parameters, _unet),
}


def classes(x):
    """The targets of a training step on an input: one for each image or sentence, or for each word."""
    return np.arange(x.size if x.dtype.kind == "i" else len(x)) * 7 % 10


class NumPy:
    """f64, obvious and slow."""

    relu = staticmethod(lambda x: np.maximum(x, 0))
    relu6 = staticmethod(lambda x: np.clip(x, 0, 6))
    rows = staticmethod(lambda table, x: table[x])
    concat = staticmethod(lambda a, b: np.concatenate([a, b], 1))
    joined_positions = staticmethod(lambda x: x.reshape(-1, x.shape[2]))
    linear = staticmethod(lambda x, w, b: x @ w.T + b)
    add = staticmethod(lambda a, b: a + b)
    flatten = staticmethod(lambda x: x.reshape(len(x), -1))
    mean_space = staticmethod(lambda x: x.mean((2, 3)))
    mean_positions = staticmethod(lambda x: x.mean(1))

    @staticmethod
    def windows(x, taps, stride, padding, fill):
        x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill)
        return np.lib.stride_tricks.sliding_window_view(x, (taps, taps), (2, 3))[:, :, ::stride, ::stride]

    @classmethod
    def conv(cls, x, w, b, stride, padding, groups=1):
        windows = cls.windows(x, w.shape[2], stride, padding, 0)
        if groups > 1:
            return np.einsum("nchwij,cij->nchw", windows, w[:, 0])
        y = np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3)))
        return np.moveaxis(y if b is None else y + b, 3, 1)

    @staticmethod
    def conv_up(x, w, b):
        y = np.einsum("nchw,cdij->ndhiwj", x, w)
        return y.reshape(*y.shape[:2], 2 * x.shape[2], 2 * x.shape[3]) + b[:, None, None]

    @classmethod
    def max_pool(cls, x, taps, stride, padding):
        return cls.windows(x, taps, stride, padding, -np.inf).max((4, 5))

    @staticmethod
    def batch_norm(x, scale, shift, mean, var):
        if mean is None:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
        scale, shift, mean, var = (v[:, None, None] for v in (scale, shift, mean, var))
        return (x - mean) / np.sqrt(var + 1e-5) * scale + shift

    @staticmethod
    def layer_norm(x, scale, shift):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift

    @staticmethod
    def gelu(x):
        from scipy.special import erf

        return 0.5 * x * (1 + erf(x / np.sqrt(2)))

    @staticmethod
    def attention(q, k, v, causal=False):
        split = lambda t: t.reshape(*t.shape[:2], HEADS, -1).swapaxes(1, 2)
        q, k, v = split(q), split(k), split(v)
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        if causal:
            scores += np.triu(np.full(scores.shape[2:], -np.inf), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads = weights / weights.sum(-1, keepdims=True) @ v
        return heads.swapaxes(1, 2).reshape(heads.shape[0], heads.shape[2], -1)

    @staticmethod
    def lstm(x, input, hidden, input_bias, hidden_bias):
        sigmoid = lambda x: 1 / (1 + np.exp(-x))
        h = c = np.zeros((len(x), hidden.shape[1]))
        outputs = []
        for at in range(x.shape[1]):
            i, f, g, o = np.split(x[:, at] @ input.T + input_bias + h @ hidden.T + hidden_bias, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        return np.stack(outputs, 1)


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
        mean_positions = staticmethod(lambda x: x.mean(1))
        flatten = staticmethod(lambda x: x.flatten(1))
        gelu = staticmethod(F.gelu)
        relu6, rows = staticmethod(F.relu6), staticmethod(lambda table, x: F.embedding(x, table))
        concat = staticmethod(lambda a, b: torch.cat([a, b], 1))
        joined_positions = staticmethod(lambda x: x.flatten(0, 1))
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
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "layer_norm": lambda x, scale, shift: (x - x.mean(-1, keepdims=True))
        * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift,
        "conv": conv,
        "max_pool": max_pool,
        "batch_norm": batch_norm,
        "attention": attention,
        "lstm": lstm,
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
    mean_space = lambda self, x: self.flatten(self.node("GlobalAveragePool", x))

    def linear(self, x, w, b):
        return self.add(self.node("MatMul", x, self.constant(np.ascontiguousarray(w.T))), self.constant(b))

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
        weights = self.node("Softmax", self.node("Mul", scores, self.constant(np.float32(384 // HEADS) ** -0.5)), axis=-1)
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
