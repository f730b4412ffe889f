"""The networks of `benches/src/networks.rs`, and of `zoo.rs` beside it, in terms of a library's few functions `f`.

`OPS[op]` is (parameters, forward): arrays by name, and the network.
"""

import images
from drawn import dense, drawn

WORDS, POSITIONS, WIDTH = 8192, 256, 384


def _mlp_parameters():
    return drawn(dense("0", 784, 512) + dense("1", 512, 10))


def _mlp(f, p, x):
    return f.linear(f.relu(f.linear(x, p["0.weight"], p["0.bias"])), p["1.weight"], p["1.bias"])


def _lenet_parameters():
    convs = [("c0.weight", (6, 1, 5, 5)), ("c0.bias", (6,)), ("c1.weight", (16, 6, 5, 5)), ("c1.bias", (16,))]
    return drawn(convs + dense("0", 400, 120) + dense("1", 120, 84) + dense("2", 84, 10))


def _lenet(f, p, x):
    x = f.max_pool(f.relu(f.conv(x, p["c0.weight"], p["c0.bias"], 1, 2)), 2, 2, 0)
    x = f.max_pool(f.relu(f.conv(x, p["c1.weight"], p["c1.bias"], 1, 0)), 2, 2, 0)
    x = f.flatten(x)
    for layer in "01":
        x = f.relu(f.linear(x, p[f"{layer}.weight"], p[f"{layer}.bias"]))
    return f.linear(x, p["2.weight"], p["2.bias"])


def _encoder_parameters():
    shapes = []
    for layer in range(6):
        for part in "qkvo":
            shapes += dense(f"{layer}.{part}", 384, 384)
        shapes += dense(f"{layer}.wide", 384, 1536) + dense(f"{layer}.narrow", 1536, 384)
        shapes += [(f"{layer}.n{i}.{part}", (384,)) for i in "12" for part in ("scale", "shift")]
    return drawn(shapes)


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
    return _encoder_parameters() | drawn(dense("classes", 384, 10))


def _classified(f, p, x):
    return f.linear(f.mean_positions(_encoder(f, p, x)), p["classes.weight"], p["classes.bias"])


def _lstm_parameters():
    cell = [("0.input", (1024, 128)), ("0.hidden", (1024, 256)), ("0.input_bias", (1024,)), ("0.hidden_bias", (1024,))]
    return drawn(cell + dense("1", 256, 10))


def _lstm(f, p, x):
    y = f.lstm(x, p["0.input"], p["0.hidden"], p["0.input_bias"], p["0.hidden_bias"])
    return f.linear(f.mean_positions(y), p["1.weight"], p["1.bias"])


def _gpt_parameters():
    shapes = [("words", (WORDS, WIDTH)), ("places", (POSITIONS, WIDTH))]
    for layer in range(4):
        for part in "qkvo":
            shapes += dense(f"{layer}.{part}", WIDTH, WIDTH)
        shapes += dense(f"{layer}.wide", WIDTH, 4 * WIDTH) + dense(f"{layer}.narrow", 4 * WIDTH, WIDTH)
        shapes += [(f"{layer}.n{i}.{part}", (WIDTH,)) for i in "12" for part in ("scale", "shift")]
    norm = [(f"norm.{part}", (WIDTH,)) for part in ("scale", "shift")]
    return drawn(shapes + norm + dense("scores", WIDTH, WORDS))


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


def _gru_parameters():
    cell = [("0.input", (768, 128)), ("0.hidden", (768, 256)), ("0.input_bias", (768,)), ("0.hidden_bias", (768,))]
    return drawn(cell + dense("1", 256, 10))


def _gru(f, p, x):
    y = f.gru(x, p["0.input"], p["0.hidden"], p["0.input_bias"], p["0.hidden_bias"])
    return f.linear(f.mean_positions(y), p["1.weight"], p["1.bias"])


TCN = 6  # residual blocks, each with taps twice as far apart


def _tcn_parameters():
    convs = [(f"{i}.weight", (64, 64, 3)) for i in range(TCN)] + [(f"{i}.bias", (64,)) for i in range(TCN)]
    return drawn(convs + dense("classes", 64, 10))


def _tcn(f, p, x):
    for i in range(TCN):
        x = f.add(x, f.relu(f.dilated(x, p[f"{i}.weight"], p[f"{i}.bias"], 1 << i)))
    return f.linear(f.mean_times(x), p["classes.weight"], p["classes.bias"])


OPS = {
    "mlp_step": (_mlp_parameters, _mlp),
    "lenet5_step": (_lenet_parameters, _lenet),
    "encoder6": (_encoder_parameters, _encoder),
    "encoder6_step": (_classified_parameters, _classified),
    "lstm_step": (_lstm_parameters, _lstm),
    "gpt_step": (_gpt_parameters, _gpt),
    "gru_step": (_gru_parameters, _gru),
    "tcn": (_tcn_parameters, _tcn),
    "tcn_step": (_tcn_parameters, _tcn),
    **images.OPS,
}
