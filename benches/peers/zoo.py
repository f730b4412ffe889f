"""The networks of `benches/src/networks.rs`, and of `zoo.rs` beside it, in terms of a library's few functions `f`.

`OPS[op]` is (parameters, forward): arrays by name, and the network.
"""

import numpy as np

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


EFFICIENTNET = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def _efficientnet_convs():
    """Name, inputs, outputs, taps, stride and groups of each convolution that is normalised, and the inputs of its block."""
    yield "stem", 3, 32, 3, 2, 1
    inputs = 32
    for stage, (ratio, outputs, count, first, taps) in enumerate(EFFICIENTNET):
        for block in range(count):
            name, hidden = f"{stage}.{block}", inputs * ratio
            if ratio > 1:
                yield f"{name}.wide", inputs, hidden, 1, 1, 1
            yield f"{name}.channels", hidden, hidden, taps, first if block == 0 else 1, hidden
            yield f"{name}.narrow", hidden, outputs, 1, 1, 1
            inputs = outputs
    yield "last", inputs, 1280, 1, 1, 1


def _squeezes():
    """Name, width and squeezed width of each block's weights of channels."""
    inputs = 32
    for stage, (ratio, outputs, count, _, _) in enumerate(EFFICIENTNET):
        for block in range(count):
            yield f"{stage}.{block}", inputs * ratio, inputs // 4
            inputs = outputs


def _efficientnet_parameters(statistics=("mean", "var")):
    shapes = []
    for name, inputs, outputs, taps, _, groups in _efficientnet_convs():
        shapes.append((f"{name}.weight", (outputs, inputs // groups, taps, taps)))
        shapes += [(f"{name}.{part}", (outputs,)) for part in ("scale", "shift", *statistics)]
    for name, width, squeezed in _squeezes():
        for part, (inputs, outputs) in (("squeeze", (width, squeezed)), ("excite", (squeezed, width))):
            shapes += [(f"{name}.{part}.weight", (outputs, inputs, 1, 1)), (f"{name}.{part}.bias", (outputs,))]
    return _drawn(shapes + _dense("classes", 1280, 1000))


def _efficientnet(f, p, x):
    convs = {name: rest for name, *rest in _efficientnet_convs()}

    def conv(name, x):
        _, _, taps, stride, groups = convs[name]
        y = f.conv(x, p[f"{name}.weight"], None, stride, taps // 2, groups)
        return f.batch_norm(y, *(p.get(f"{name}.{part}") for part in ("scale", "shift", "mean", "var")))

    def point(name, x):
        return f.conv(x, p[f"{name}.weight"], p[f"{name}.bias"], 1, 0)

    x = f.silu(conv("stem", x))
    for stage, (_, _, count, _, _) in enumerate(EFFICIENTNET):
        for block in range(count):
            name = f"{stage}.{block}"
            y = f.silu(conv(f"{name}.wide", x)) if f"{name}.wide" in convs else x
            y = f.silu(conv(f"{name}.channels", y))
            weights = f.sigmoid(point(f"{name}.excite", f.silu(point(f"{name}.squeeze", f.pooled(y)))))
            y = conv(f"{name}.narrow", f.mul(y, weights))
            x = f.add(y, x) if block else y
    x = f.silu(conv("last", x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


CONVNEXT = ((40, 2), (80, 2), (160, 6), (320, 2))


def _convnext_parameters():
    shapes, inputs = [], 3
    for stage, (width, count) in enumerate(CONVNEXT):
        taps, normed = (2, inputs) if stage else (4, width)
        shapes += [(f"{stage}.weight", (width, inputs, taps, taps)), (f"{stage}.bias", (width,))]
        shapes += [(f"{stage}.scale", (normed,)), (f"{stage}.shift", (normed,))]
        for block in range(count):
            name = f"{stage}.{block}"
            shapes += [(f"{name}.weight", (width, 1, 7, 7)), (f"{name}.bias", (width,))]
            shapes += [(f"{name}.n.scale", (width,)), (f"{name}.n.shift", (width,))]
            shapes += _dense(f"{name}.wide", width, 4 * width) + _dense(f"{name}.narrow", 4 * width, width)
            shapes += [(f"{name}.layer.scale", (width,))]
        inputs = width
    return _drawn(shapes + [("scale", (inputs,)), ("shift", (inputs,))] + _dense("classes", inputs, 1000))


def _convnext(f, p, x):
    def linear(name, x):
        return f.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(stage, x):
        return f.channels_first(f.layer_norm(f.channels_last(x), p[f"{stage}.scale"], p[f"{stage}.shift"]))

    def coarser(stage, x):
        return f.conv(x, p[f"{stage}.weight"], p[f"{stage}.bias"], 2 if stage else 4, 0)

    for stage, (width, count) in enumerate(CONVNEXT):
        x = coarser(stage, norm(stage, x)) if stage else norm(stage, coarser(stage, x))
        for block in range(count):
            name = f"{stage}.{block}"
            y = f.channels_last(f.conv(x, p[f"{name}.weight"], p[f"{name}.bias"], 1, 3, width))
            y = f.layer_norm(y, p[f"{name}.n.scale"], p[f"{name}.n.shift"])
            y = linear(f"{name}.narrow", f.gelu(linear(f"{name}.wide", y)))
            x = f.add(x, f.channels_first(f.scaled(y, p[f"{name}.layer.scale"])))
    return linear("classes", f.layer_norm(f.mean_space(x), p["scale"], p["shift"]))


# Name, inputs and outputs of blocks of the denoiser.
RESIDUALS = (("f0", 96, 96), ("f1", 96, 96), ("c0", 96, 192), ("c1", 192, 192), ("j0", 288, 96), ("j1", 96, 96))


def _denoiser_parameters():
    def conv(name, inputs, outputs, taps):
        return [(f"{name}.weight", (outputs, inputs, taps, taps)), (f"{name}.bias", (outputs,))]

    def norm(name, width):
        return [(f"{name}.scale", (width,)), (f"{name}.shift", (width,))]

    shapes = conv("stem", 3, 96, 3) + conv("coarser", 96, 96, 3) + conv("finer", 192, 192, 3)
    for name, inputs, outputs in RESIDUALS:
        shapes += norm(f"{name}.n0", inputs) + norm(f"{name}.n1", outputs)
        shapes += conv(f"{name}.0", inputs, outputs, 3) + conv(f"{name}.1", outputs, outputs, 3)
        shapes += conv(f"{name}.p", inputs, outputs, 1) if inputs != outputs else []
    shapes += norm("seen", 192)
    for part in "qkvo":
        shapes += _dense(part, 192, 192)
    return _drawn(shapes + _dense("classes", 96, 10))


def _denoiser(f, p, x):
    def conv(name, x, stride=1):
        weight = p[f"{name}.weight"]
        return f.conv(x, weight, p[f"{name}.bias"], stride, weight.shape[2] // 2)

    def norm(name, x):
        return f.group_norm(x, p[f"{name}.scale"], p[f"{name}.shift"], 8)

    def residual(name, x):
        y = conv(f"{name}.0", f.silu(norm(f"{name}.n0", x)))
        y = conv(f"{name}.1", f.silu(norm(f"{name}.n1", y)))
        return f.add(y, conv(f"{name}.p", x) if f"{name}.p.weight" in p else x)

    def linear(name, x):
        return f.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def seen(x):
        y = f.places(norm("seen", x))
        y = linear("o", f.attention(*(linear(part, y) for part in "qkv")))
        return f.add(x, f.grid(y, 16))

    side = residual("f1", residual("f0", conv("stem", x)))
    x = residual("c1", residual("c0", conv("coarser", side, 2)))
    x = f.concat(conv("finer", f.twice(seen(x))), side)
    x = residual("j1", residual("j0", x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


def _gru_parameters():
    cell = [("0.input", (768, 128)), ("0.hidden", (768, 256)), ("0.input_bias", (768,)), ("0.hidden_bias", (768,))]
    return _drawn(cell + _dense("1", 256, 10))


def _gru(f, p, x):
    y = f.gru(x, p["0.input"], p["0.hidden"], p["0.input_bias"], p["0.hidden_bias"])
    return f.linear(f.mean_positions(y), p["1.weight"], p["1.bias"])


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
    "gru_step": (_gru_parameters, _gru),
    "efficientnet": (_efficientnet_parameters, _efficientnet),
    "efficientnet_step": (lambda: _efficientnet_parameters(()), _efficientnet),
    "convnext": (_convnext_parameters, _convnext),
    "convnext_step": (_convnext_parameters, _convnext),
    "denoiser": (_denoiser_parameters, _denoiser),
    "denoiser_step": (_denoiser_parameters, _denoiser),
}
