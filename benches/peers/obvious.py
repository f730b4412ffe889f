"""What a network is made of, in NumPy."""

import numpy as np

HEADS = 6


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
    mean_times = staticmethod(lambda x: x.mean(2))
    pooled = staticmethod(lambda x: x.mean((2, 3), keepdims=True))
    mul = scaled = staticmethod(lambda a, b: a * b)
    sigmoid = staticmethod(lambda x: 1 / (1 + np.exp(-x)))
    silu = staticmethod(lambda x: x / (1 + np.exp(-x)))
    channels_last = staticmethod(lambda x: x.transpose(0, 2, 3, 1))
    channels_first = staticmethod(lambda x: x.transpose(0, 3, 1, 2))
    places = staticmethod(lambda x: x.reshape(*x.shape[:2], -1).swapaxes(1, 2))
    grid = staticmethod(lambda x, rows: x.swapaxes(1, 2).reshape(len(x), -1, rows, rows))
    twice = staticmethod(lambda x: x.repeat(2, 2).repeat(2, 3))
    reshape = staticmethod(lambda x, *shape: x.reshape(shape))
    permute = staticmethod(lambda x, *order: x.transpose(order))
    channels = staticmethod(lambda x, start, stop: x[:, start:stop])
    item = staticmethod(lambda x, at: x[at])
    roll = staticmethod(lambda x, by: np.roll(x, (by, by), (1, 2)))
    masked = staticmethod(lambda scores, mask: scores if mask is None else scores + mask)
    product = staticmethod(lambda x, w: x @ w.T)
    mean_grid = staticmethod(lambda x: x.mean((1, 2)))
    halved = staticmethod(lambda x: x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).mean((3, 5)))

    @staticmethod
    def seen(q, k, v, scores, scale):
        scores = q @ k.swapaxes(-1, -2) * scale + scores
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    @staticmethod
    def group_norm(x, scale, shift, groups):
        y = x.reshape(len(x), groups, -1)
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
        return y.reshape(x.shape) * scale[:, None, None] + shift[:, None, None]

    @staticmethod
    def windows(x, taps, stride, padding, fill):
        x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill)
        return np.lib.stride_tricks.sliding_window_view(x, (taps, taps), (2, 3))[:, :, ::stride, ::stride]

    @classmethod
    def conv(cls, x, w, b, stride, padding, groups=1):
        if 1 < groups < x.shape[1]:
            parts = zip(np.split(x, groups, 1), np.split(w, groups))
            return np.concatenate([cls.conv(x, w, None, stride, padding) for x, w in parts], 1)
        windows = cls.windows(x, w.shape[2], stride, padding, 0)
        if groups > 1:
            y = np.einsum("nchwij,cij->nchw", windows, w[:, 0])
            return y if b is None else y + b[:, None, None]
        y = np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3)))
        return np.moveaxis(y if b is None else y + b, 3, 1)

    @staticmethod
    def conv_up(x, w, b):
        y = np.einsum("nchw,cdij->ndhiwj", x, w)
        return y.reshape(*y.shape[:2], 2 * x.shape[2], 2 * x.shape[3]) + b[:, None, None]

    @staticmethod
    def dilated(x, w, b, by):
        reach = (w.shape[2] - 1) * by
        x = np.pad(x, ((0, 0), (0, 0), (reach // 2, reach // 2)))
        taps = (np.einsum("nct,oc->not", x[:, :, k * by : k * by + x.shape[2] - reach], w[:, :, k]) for k in range(w.shape[2]))
        return sum(taps) + b[:, None]

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

    @classmethod
    def gru(cls, x, input, hidden, input_bias, hidden_bias):
        h = np.zeros((len(x), hidden.shape[1]))
        outputs = []
        for at in range(x.shape[1]):
            r, z, n = np.split(x[:, at] @ input.T + input_bias, 3, 1)
            hr, hz, hn = np.split(h @ hidden.T + hidden_bias, 3, 1)
            r, z = cls.sigmoid(r + hr), cls.sigmoid(z + hz)
            h = (1 - z) * np.tanh(n + r * hn) + z * h
            outputs.append(h)
        return np.stack(outputs, 1)
