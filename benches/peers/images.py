"""The networks of images of `benches/src/resnet.rs` and `benches/src/zoo.rs`, as those of `zoo.py`."""

import numpy as np
from drawn import dense, drawn


def _normed(name, width, statistics):
    return [(f"{name}.{part}", (width,)) for part in ("scale", "shift", *statistics)]


def _batch_norm(f, p, name, x):
    """Without running statistics batches are normalised by their own."""
    return f.batch_norm(x, *(p.get(f"{name}.{part}") for part in ("scale", "shift", "mean", "var")))


def _convs_shapes(convs, statistics):
    shapes = []
    for name, inputs, outputs, taps, _, groups in convs:
        shapes += [(f"{name}.weight", (outputs, inputs // groups, taps, taps))] + _normed(name, outputs, statistics)
    return shapes


def _convs_parameters(convs, classes, statistics):
    return drawn(_convs_shapes(convs, statistics) + dense("classes", classes, 1000))


def _of_convs(f, p, convs):
    of = {name: rest for name, *rest in convs}

    def conv(name, x):
        _, _, taps, stride, groups = of[name]
        return _batch_norm(f, p, name, f.conv(x, p[f"{name}.weight"], None, stride, taps // 2, groups))

    return conv


STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


def _resnet_convs():
    """Name, inputs, outputs, taps, stride and groups of each convolution; a block's parts have one prefix."""
    yield "stem", 3, 64, 7, 2, 1
    inputs = 64
    for stage, (outputs, first) in enumerate(STAGES):
        for block, stride in enumerate((first, 1)):
            name = f"{stage}.{block}"
            yield f"{name}.a", inputs, outputs, 3, stride, 1
            yield f"{name}.b", outputs, outputs, 3, 1, 1
            if inputs != outputs:
                yield f"{name}.p", inputs, outputs, 1, stride, 1
            inputs = outputs


def _resnet_parameters(statistics=("mean", "var")):
    return _convs_parameters(_resnet_convs(), 512, statistics)


def _resnet(f, p, x):
    convs = {name for name, *_ in _resnet_convs()}
    conv = _of_convs(f, p, _resnet_convs())
    x = f.max_pool(f.relu(conv("stem", x)), 3, 2, 1)
    for stage in range(len(STAGES)):
        for block in range(2):
            name = f"{stage}.{block}"
            y = conv(f"{name}.b", f.relu(conv(f"{name}.a", x)))
            x = f.relu(f.add(y, conv(f"{name}.p", x) if f"{name}.p" in convs else x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


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
    return _convs_parameters(_mobilenet_convs(), 1280, statistics)


def _mobilenet(f, p, x):
    convs = {name for name, *_ in _mobilenet_convs()}
    conv = _of_convs(f, p, _mobilenet_convs())
    x = f.relu6(conv("stem", x))
    for stage, (_, _, count, _) in enumerate(MOBILENET):
        for block in range(count):
            name = f"{stage}.{block}"
            y = f.relu6(conv(f"{name}.wide", x)) if f"{name}.wide" in convs else x
            y = conv(f"{name}.narrow", f.relu6(conv(f"{name}.channels", y)))
            x = f.add(y, x) if block else y
    x = f.relu6(conv("last", x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


UNET = (("down0", 3, 32), ("down1", 32, 64), ("bottom", 64, 128), ("joined0", 128, 64), ("joined1", 64, 32))


def _unet_parameters():
    shapes = []
    for name, inputs, outputs in UNET:
        shapes += [(f"{name}.weight", (outputs, inputs, 3, 3))] + _normed(name, outputs, ())
    for name, inputs, outputs in (("up0", 128, 64), ("up1", 64, 32)):
        shapes += [(f"{name}.weight", (inputs, outputs, 2, 2)), (f"{name}.bias", (outputs,))]
    return drawn(shapes + dense("classes", 32, 10))


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
    shapes = _convs_shapes(_efficientnet_convs(), statistics)
    for name, width, squeezed in _squeezes():
        for part, (inputs, outputs) in (("squeeze", (width, squeezed)), ("excite", (squeezed, width))):
            shapes += [(f"{name}.{part}.weight", (outputs, inputs, 1, 1)), (f"{name}.{part}.bias", (outputs,))]
    return drawn(shapes + dense("classes", 1280, 1000))


def _efficientnet(f, p, x):
    convs = {name for name, *_ in _efficientnet_convs()}
    conv = _of_convs(f, p, _efficientnet_convs())

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
            shapes += dense(f"{name}.wide", width, 4 * width) + dense(f"{name}.narrow", 4 * width, width)
            shapes += [(f"{name}.layer.scale", (width,))]
        inputs = width
    return drawn(shapes + [("scale", (inputs,)), ("shift", (inputs,))] + dense("classes", inputs, 1000))


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
        shapes += dense(part, 192, 192)
    return drawn(shapes + dense("classes", 96, 10))


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


GROWTH, DENSENET = 32, (6, 12, 24, 16)


def _densenet_layers():
    """Name, inputs, outputs and taps of each convolution behind the first; what makes the grid coarser is a stage's `coarser`."""
    width = 64
    for stage, count in enumerate(DENSENET):
        for layer in range(count):
            yield f"{stage}.{layer}.narrow", width, 4 * GROWTH, 1
            yield f"{stage}.{layer}.new", 4 * GROWTH, GROWTH, 3
            width += GROWTH
        if stage < 3:
            yield f"{stage}.coarser", width, width // 2, 1
            width //= 2


def _densenet_parameters(statistics=("mean", "var")):
    shapes = [("stem.weight", (64, 3, 7, 7))] + _normed("stem", 64, statistics)
    for name, inputs, outputs, taps in _densenet_layers():
        shapes += _normed(name, inputs, statistics) + [(f"{name}.weight", (outputs, inputs, taps, taps))]
    return drawn(shapes + _normed("last", 1024, statistics) + dense("classes", 1024, 1000))


def _densenet(f, p, x):
    def before(name, x):
        weight = p[f"{name}.weight"]
        return f.conv(f.relu(_batch_norm(f, p, name, x)), weight, None, 1, weight.shape[2] // 2)

    x = f.relu(_batch_norm(f, p, "stem", f.conv(x, p["stem.weight"], None, 2, 3)))
    x = f.max_pool(x, 3, 2, 1)
    for stage, count in enumerate(DENSENET):
        for layer in range(count):
            x = f.concat(x, before(f"{stage}.{layer}.new", before(f"{stage}.{layer}.narrow", x)))
        x = f.halved(before(f"{stage}.coarser", x)) if stage < 3 else x
    x = f.relu(_batch_norm(f, p, "last", x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


SHUFFLENET = ((116, 4), (232, 8), (464, 4))


def _shufflenet_convs():
    """Name, inputs, outputs, taps, stride and groups of each convolution; a block's parts have one prefix."""
    yield "stem", 3, 24, 3, 2, 1
    inputs = 24
    for stage, (outputs, count) in enumerate(SHUFFLENET):
        half = outputs // 2
        for block in range(count):
            name = f"{stage}.{block}"
            first, stride = (half, 1) if block else (inputs, 2)
            yield f"{name}.wide", first, half, 1, 1, 1
            yield f"{name}.channels", half, half, 3, stride, half
            yield f"{name}.narrow", half, half, 1, 1, 1
            if not block:
                yield f"{name}.beside.channels", inputs, inputs, 3, 2, inputs
                yield f"{name}.beside.narrow", inputs, half, 1, 1, 1
        inputs = outputs
    yield "last", inputs, 1024, 1, 1, 1


def _shufflenet_parameters(statistics=("mean", "var")):
    return _convs_parameters(_shufflenet_convs(), 1024, statistics)


def _shufflenet(f, p, x):
    conv = _of_convs(f, p, _shufflenet_convs())
    x = f.max_pool(f.relu(conv("stem", x)), 3, 2, 1)
    for stage, (outputs, count) in enumerate(SHUFFLENET):
        rows = 28 >> stage
        for block in range(count):
            name = f"{stage}.{block}"
            if block:
                kept, through = f.channels(x, 0, outputs // 2), f.channels(x, outputs // 2, outputs)
            else:
                kept = f.relu(conv(f"{name}.beside.narrow", conv(f"{name}.beside.channels", x)))
                through = x
            y = f.relu(conv(f"{name}.narrow", conv(f"{name}.channels", f.relu(conv(f"{name}.wide", through)))))
            x = f.permute(f.reshape(f.concat(kept, y), -1, 2, outputs // 2, rows, rows), 0, 2, 1, 3, 4)
            x = f.reshape(x, -1, outputs, rows, rows)
    x = f.relu(conv("last", x))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


RESNEXT = ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2))


def _resnext_convs():
    """Name, inputs, outputs, taps, stride and groups of each convolution; a block's parts have one prefix."""
    yield "stem", 3, 64, 7, 2, 1
    inputs = 64
    for stage, (width, count, first) in enumerate(RESNEXT):
        for block in range(count):
            name, stride = f"{stage}.{block}", 1 if block else first
            yield f"{name}.narrow", inputs, width, 1, 1, 1
            yield f"{name}.groups", width, width, 3, stride, 32
            yield f"{name}.wide", width, 2 * width, 1, 1, 1
            if not block:
                yield f"{name}.beside", inputs, 2 * width, 1, stride, 1
            inputs = 2 * width


def _resnext_parameters(statistics=("mean", "var")):
    return _convs_parameters(_resnext_convs(), 2048, statistics)


def _resnext(f, p, x):
    conv = _of_convs(f, p, _resnext_convs())
    x = f.max_pool(f.relu(conv("stem", x)), 3, 2, 1)
    for stage, (_, count, _) in enumerate(RESNEXT):
        for block in range(count):
            name = f"{stage}.{block}"
            y = conv(f"{name}.wide", f.relu(conv(f"{name}.groups", f.relu(conv(f"{name}.narrow", x)))))
            x = f.relu(f.add(y, x if block else conv(f"{name}.beside", x)))
    return f.linear(f.mean_space(x), p["classes.weight"], p["classes.bias"])


SWIN, WINDOW = ((96, 56, 2, 3), (192, 28, 2, 6), (384, 14, 6, 12), (768, 7, 2, 24)), 7


def _swin_parameters():
    norm = lambda name, width: [(f"{name}.{part}", (width,)) for part in ("scale", "shift")]
    shapes = [("patches.weight", (96, 3, 4, 4)), ("patches.bias", (96,))] + norm("first", 96)
    for stage, (width, grid, count, heads) in enumerate(SWIN):
        for block in range(count):
            name = f"{stage}.{block}"
            shapes += norm(f"{name}.before", width) + norm(f"{name}.after", width)
            shapes += dense(f"{name}.parts", width, 3 * width) + dense(f"{name}.joined", width, width)
            shapes += dense(f"{name}.wide", width, 4 * width) + dense(f"{name}.narrow", 4 * width, width)
            shapes += [(f"{name}.scores", (heads, WINDOW**2, WINDOW**2))]
        if stage < 3:
            shapes += norm(f"{stage}.coarser", 4 * width) + [(f"{stage}.coarser.weight", (2 * width, 4 * width))]
    return drawn(shapes + norm("last", 768) + dense("classes", 768, 1000))


def _swin_mask(grid):
    """Scores of -100 between places of a window that were apart before the move: [windows, 1, places, places]."""
    at = np.arange(grid)
    part = (at >= grid - WINDOW).astype(int) + (at >= grid - WINDOW // 2)
    regions = (3 * part[:, None] + part).reshape(grid // WINDOW, WINDOW, grid // WINDOW, WINDOW).swapaxes(1, 2)
    regions = regions.reshape(-1, 1, WINDOW**2)
    apart = regions[..., :, None] != regions[..., None, :]
    return np.where(apart, np.float32(-100), np.float32(0))


def _swin(f, p, x):
    def linear(name, x):
        return f.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(name, x):
        return f.layer_norm(x, p[f"{name}.scale"], p[f"{name}.shift"])

    def attention(name, x, width, grid, heads, moved):
        windows, places = grid // WINDOW, WINDOW**2
        x = f.roll(x, -(WINDOW // 2)) if moved else x
        x = f.permute(f.reshape(x, -1, windows, WINDOW, windows, WINDOW, width), 0, 1, 3, 2, 4, 5)
        y = linear(f"{name}.parts", f.reshape(x, -1, windows**2, places, width))
        y = f.permute(f.reshape(y, -1, windows**2, places, 3, heads, width // heads), 3, 0, 1, 4, 2, 5)
        scores = f.masked(p[f"{name}.scores"], _swin_mask(grid) if moved else None)
        y = f.seen(*(f.item(y, at) for at in range(3)), scores, (width // heads) ** -0.5)
        y = linear(f"{name}.joined", f.reshape(f.permute(y, 0, 1, 3, 2, 4), -1, windows**2, places, width))
        y = f.permute(f.reshape(y, -1, windows, windows, WINDOW, WINDOW, width), 0, 1, 3, 2, 4, 5)
        y = f.reshape(y, -1, grid, grid, width)
        return f.roll(y, WINDOW // 2) if moved else y

    x = norm("first", f.channels_last(f.conv(x, p["patches.weight"], p["patches.bias"], 4, 0)))
    for stage, (width, grid, count, heads) in enumerate(SWIN):
        for block in range(count):
            name, moved = f"{stage}.{block}", block % 2 == 1 and grid > WINDOW
            x = f.add(x, attention(name, norm(f"{name}.before", x), width, grid, heads, moved))
            x = f.add(x, linear(f"{name}.narrow", f.gelu(linear(f"{name}.wide", norm(f"{name}.after", x)))))
        if stage < 3:
            x = f.permute(f.reshape(x, -1, grid // 2, 2, grid // 2, 2, width), 0, 1, 3, 4, 2, 5)
            x = norm(f"{stage}.coarser", f.reshape(x, -1, grid // 2, grid // 2, 4 * width))
            x = f.product(x, p[f"{stage}.coarser.weight"])
    return linear("classes", f.mean_grid(norm("last", x)))


OPS = {
    "resnet18": (_resnet_parameters, _resnet),
    "resnet18_step": (lambda: _resnet_parameters(()), _resnet),
    "mobilenet": (_mobilenet_parameters, _mobilenet),
    "mobilenet_step": (lambda: _mobilenet_parameters(()), _mobilenet),
    "unet_step": (_unet_parameters, _unet),
    "efficientnet": (_efficientnet_parameters, _efficientnet),
    "efficientnet_step": (lambda: _efficientnet_parameters(()), _efficientnet),
    "convnext": (_convnext_parameters, _convnext),
    "convnext_step": (_convnext_parameters, _convnext),
    "denoiser": (_denoiser_parameters, _denoiser),
    "denoiser_step": (_denoiser_parameters, _denoiser),
    "densenet": (_densenet_parameters, _densenet),
    "densenet_step": (lambda: _densenet_parameters(()), _densenet),
    "shufflenet": (_shufflenet_parameters, _shufflenet),
    "shufflenet_step": (lambda: _shufflenet_parameters(()), _shufflenet),
    "resnext": (_resnext_parameters, _resnext),
    "resnext_step": (lambda: _resnext_parameters(()), _resnext),
    "swin": (_swin_parameters, _swin),
    "swin_step": (_swin_parameters, _swin),
}
