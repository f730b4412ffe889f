"""The cases: inputs, the least work each needs, and what the right answer is. All is f32, unless a case says otherwise."""

import functools
from dataclasses import dataclass
from typing import Callable

import numpy as np

import networks
import zoo

K, MU = 1.7, 0.3  # the constants of energy
EPS = 1e-5  # of layer norm
CHUNK = 10**6  # numbers that come from the host at once
TOLERANCE = 2e-5  # relative error that f32 explains when sums are blocked; bf16, TF32 and one running sum are worse
BF16_TOLERANCE = 2**-8  # a result of bf16 whose sums are of f32: one rounding, to 8 binary digits


@dataclass(frozen=True)
class Case:
    """One operation on fixed shapes."""

    op: str
    shapes: tuple  # of the inputs
    bytes: int  # read or written at least once; 0 where the call itself is what costs
    flops: int  # that a limit can be made of; 0 where memory alone is the limit
    reference: Callable  # inputs -> the answer in f64 (integers for argmax)
    drawn: tuple = ()  # how inputs are drawn: (generator, shape) -> array; those beyond are normally distributed f32
    tolerance: float = TOLERANCE

    def inputs(self):
        """The same in every process."""
        rng = np.random.default_rng(0)
        drawn = self.drawn + (_normal,) * (len(self.shapes) - len(self.drawn))
        return [draw(rng, shape) for draw, shape in zip(drawn, self.shapes)]

    def limit_ms(self, fma_gflops, read_gbs):
        """The flops at the FMA peak or the bytes at the speed of reading as many, whichever takes longer."""
        return max(self.flops / (fma_gflops * 1e6), self.bytes / (read_gbs * 1e6))

    def error(self, answer, inputs):
        """Largest difference from the reference, relative to its largest value."""
        wanted = self.reference(*inputs)
        answer = np.asarray(answer)
        if answer.shape != np.shape(wanted):
            raise ValueError(f"{self.op}: shape {answer.shape}, wanted {np.shape(wanted)}")
        return float(np.max(np.abs(answer - wanted)) / np.max(np.abs(wanted)))


def _normal(rng, shape):
    return rng.standard_normal(shape, dtype=np.float32)


def _bf16(rng, shape):
    """As f32, which libraries turn into bf16 without a loss."""
    return (_normal(rng, shape).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _integers(dtype):
    """All values of an integer of 8 bits."""
    info = np.iinfo(dtype)
    return lambda rng, shape: rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def _spread(below):
    """Indices that lie apart, as in `benches/src/indexed.rs`."""
    return lambda _rng, shape: np.arange(np.prod(shape), dtype=np.int64).reshape(shape) * 7919 % below


def _energy(x):
    chunks = np.array_split(x, 100)
    return 0.5 * K * sum(np.sum((c.astype(np.float64) - MU) ** 2) for c in chunks)


def _softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _layernorm(x, gain, bias):
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS) * gain + bias


def _gelu(x):
    from scipy.special import erf

    x = x.astype(np.float64)
    return 0.5 * x * (1.0 + erf(x / np.sqrt(2.0)))


def _matmul(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def _integer_matmul(a, b):
    """f64 holds such sums exactly."""
    return _matmul(a, b).astype(np.int64)


def _conv(x, w, stride):
    """NCHW with padding by half the taps; a group of inputs is as large as the weight says."""
    x, w, padding = x.astype(np.float64), w.astype(np.float64), w.shape[2] // 2
    if w.shape[1] == x.shape[1]:
        return networks.NumPy.conv(x, w, None, stride, padding)
    return np.einsum("nchwij,cij->nchw", networks.NumPy.windows(x, w.shape[2], stride, padding, 0), w[:, 0])


def _attention(q, k, v, causal=False):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return _softmax(scores) @ v


def _heads(heads, queries, keys, causal=False):
    """Heads of 64 numbers; of a causal one half of the products are wanted."""
    shapes = (heads, queries, 64), (heads, keys, 64), (heads, keys, 64)
    seen = queries * (queries + 1) // 2 if causal else queries * keys
    reference = functools.partial(_attention, causal=causal)
    op = "attention_causal" if causal else "attention"
    return Case(op, shapes, _f32_bytes(2 * heads * (queries + keys) * 64), 4 * heads * 64 * seen, reference)


def _f32_bytes(count):
    return 4 * count


def _square(n):
    return Case("matmul", ((n, n), (n, n)), _f32_bytes(3 * n * n), 2 * n**3, _matmul)


def _convolution(inputs, weights, stride=1):
    """Depthwise where the weights have one input channel."""
    side = inputs[2] // stride
    outputs = inputs[0] * weights[0] * side**2
    count = int(np.prod(inputs)) + int(np.prod(weights)) + outputs
    op = "conv" if stride == 1 else f"conv_stride{stride}"
    return Case(
        op, (inputs, weights), _f32_bytes(count), 2 * outputs * int(np.prod(weights[1:])), functools.partial(_conv, stride=stride)
    )


def _narrow_square(op, reference, drawn, tolerance):
    """1024³ of narrow numbers, for which there is no probe of the limit."""
    return Case(op, ((1024, 1024),) * 2, 0, 0, reference, drawn, tolerance)


def _network(op, shape, products, drawn=()):
    """Inputs alone count as bytes: what a network keeps, and where, is its own business."""
    return Case(op, (shape,), _f32_bytes(int(np.prod(shape))), 2 * products, networks.reference(op), drawn)


M = 4096 * 4096
WORDS = 30_000  # rows of the table of embeddings
MOBILENET = 300_774_272  # products for one image
EFFICIENTNET, CONVNEXT, DENOISER = 385_814_752, 547_332_480, 1_606_190_016  # likewise
DENSENET, SHUFFLENET, RESNEXT, SWIN = 2_834_161_664, 144_907_992, 4_230_479_872, 4_490_566_656  # likewise
TCN = 6 * 8 * 1024 * 64 * 64 * 3
UNET = 128**2 * 32 * (27 + 576 + 64) + 64**2 * 64 * (288 + 1152 + 128) + 32**2 * 128 * 576
BF16_SQUARE = _narrow_square("matmul_bf16", _matmul, (_bf16, _bf16), BF16_TOLERANCE)
CASES = {
    "energy_1e8": Case("energy", ((10**8,),), _f32_bytes(10**8), 0, _energy),
    # the same from chunks of host memory
    "energy_chunked": Case("energy_chunked", ((10**8,),), _f32_bytes(10**8), 0, _energy),
    "softmax_1024x1024": Case("softmax", ((1024, 1024),), _f32_bytes(2 * 1024 * 1024), 0, _softmax),
    "layernorm_4096x768": Case("layernorm", ((4096, 768), (768,), (768,)), _f32_bytes(2 * 4096 * 768), 0, _layernorm),
    "add_1e7": Case("add", ((10**7,), (10**7,)), _f32_bytes(3 * 10**7), 0, lambda a, b: a.astype(np.float64) + b),
    # eager: the op on one element, with its result and the end of that
    "add_1": Case("add", ((1,), (1,)), 0, 0, lambda a, b: a.astype(np.float64) + b),
    "gelu_1e7": Case("gelu", ((10**7,),), _f32_bytes(2 * 10**7), 0, _gelu),
    **{f"matmul_{n}": _square(n) for n in (64, 256, 512, 1024, 2048)},
    "matmul_32x128": Case("matmul", ((32, 128, 128),) * 2, _f32_bytes(3 * 32 * 128**2), 64 * 128**3, _matmul),
    "matmul_bf16_1024": BF16_SQUARE,
    # beside ours with cpu.amx_bf16 on
    "matmul_i8_1024": _narrow_square("matmul_int8", _integer_matmul, (_integers(np.int8),) * 2, 0),
    "matmul_u8_i8_1024": _narrow_square("matmul_int8", _integer_matmul, (_integers(np.uint8), _integers(np.int8)), 0),
    "gemv_4096": Case("matmul", ((4096, 4096), (4096,)), _f32_bytes(M), 2 * M, _matmul),
    "sum_axis0_4096": Case("sum0", ((4096, 4096),), _f32_bytes(M), 0, lambda x: x.sum(0, dtype=np.float64)),
    "sum_axis1_4096": Case("sum1", ((4096, 4096),), _f32_bytes(M), 0, lambda x: x.sum(1, dtype=np.float64)),
    "argmax_1e7": Case("argmax", ((10**7,),), _f32_bytes(10**7), 0, lambda x: np.int64(np.argmax(x))),
    "transpose_4096": Case("transpose", ((4096, 4096),), _f32_bytes(2 * M), 0, lambda x: x.T),
    "sort_1e6": Case("sort", ((10**6,),), _f32_bytes(2 * 10**6), 0, np.sort),
    "sort_1024x1024": Case("sort", ((1024, 1024),), _f32_bytes(2 * 1024**2), 0, np.sort),
    "cumsum_axis0_4096": Case("cumsum0", ((4096, 4096),), _f32_bytes(2 * M), 0, lambda x: x.cumsum(0, dtype=np.float64)),
    "cumsum_axis1_4096": Case("cumsum1", ((4096, 4096),), _f32_bytes(2 * M), 0, lambda x: x.cumsum(1, dtype=np.float64)),
    "embedding_4096x768": Case(
        "embedding",
        ((WORDS, 768), (4096,)),
        _f32_bytes(2 * 4096 * 768),
        0,
        lambda table, rows: table[rows],
        (_normal, _spread(WORDS)),
    ),
    "conv_8x64x56_3x3": _convolution((8, 64, 56, 56), (64, 64, 3, 3)),
    "conv_8x3x224_7x7_s2": _convolution((8, 3, 224, 224), (64, 3, 7, 7), 2),
    "conv_depthwise_8x128x28": _convolution((8, 128, 28, 28), (128, 1, 3, 3)),
    # windows of 3 by 3 with stride 2 and padding 1
    "maxpool_8x64x112": Case(
        "maxpool",
        ((8, 64, 112, 112),),
        _f32_bytes(8 * 64 * (112**2 + 56**2)),
        0,
        lambda x: networks.NumPy.max_pool(x, 3, 2, 1),
    ),
    "attention_12x512": _heads(12, 512, 512),
    "attention_causal_8x2048": _heads(8, 2048, 2048, causal=True),
    "attention_decode_32x2048": _heads(32, 1, 2048),
    "mlp_step_b128": _network("mlp_step", (128, 784), 128 * (2 * 784 * 512 + 3 * 512 * 10)),
    "lenet5_step_b64": _network(
        "lenet5_step",
        (64, 1, 28, 28),
        64 * (2 * 28**2 * 6 * 25 + 3 * (10**2 * 16 * 6 * 25 + 400 * 120 + 120 * 84 + 84 * 10)),
    ),
    # no gradient of the images
    "resnet18_step_b8": _network("resnet18_step", (8, 3, 224, 224), 8 * (3 * 1_814_000_000 - 64 * 112**2 * 3 * 49)),
    "encoder6_step_b8": _network("encoder6_step", (8, 128, 384), 18 * 8 * 128 * (12 * 384**2 + 2 * 128 * 384)),
    "lstm_step_b32": _network("lstm_step", (32, 64, 128), 3 * 32 * 64 * 1024 * (128 + 256)),
    "mobilenet_step_b8": _network("mobilenet_step", (8, 3, 224, 224), 8 * (3 * MOBILENET - 32 * 112**2 * 27)),
    "gpt_step_b4": _network(
        "gpt_step",
        (4, 256),
        3 * 1024 * (4 * (12 * 384**2 + 2 * 256 * 384) + 384 * 8192),
        (_spread(zoo.WORDS),),
    ),
    "unet_step_b4": _network("unet_step", (4, 3, 128, 128), 4 * (3 * UNET - 128**2 * 27 * 32)),
    "tcn_b8": _network("tcn", (8, 64, 1024), TCN),
    # no gradient of the series
    "tcn_step_b8": _network("tcn_step", (8, 64, 1024), 3 * TCN - 8 * 1024 * 64 * 64 * 3),
    "gru_step_b32": _network("gru_step", (32, 64, 128), 3 * 32 * 64 * 768 * (128 + 256)),
    "efficientnet_step_b8": _network("efficientnet_step", (8, 3, 224, 224), 8 * (3 * EFFICIENTNET - 32 * 112**2 * 27)),
    "convnext_step_b8": _network("convnext_step", (8, 3, 224, 224), 8 * (3 * CONVNEXT - 40 * 56**2 * 48)),
    "densenet_step_b8": _network("densenet_step", (8, 3, 224, 224), 8 * (3 * DENSENET - 64 * 112**2 * 147)),
    "shufflenet_step_b8": _network("shufflenet_step", (8, 3, 224, 224), 8 * (3 * SHUFFLENET - 24 * 112**2 * 27)),
    "resnext_step_b8": _network("resnext_step", (8, 3, 224, 224), 8 * (3 * RESNEXT - 64 * 112**2 * 147)),
    "swin_step_b8": _network("swin_step", (8, 3, 224, 224), 8 * (3 * SWIN - 96 * 56**2 * 48)),
    "denoiser_step_b4": _network("denoiser_step", (4, 3, 32, 32), 4 * (3 * DENOISER - 32**2 * 96 * 27)),
    **{f"efficientnet_b{b}": _network("efficientnet", (b, 3, 224, 224), b * EFFICIENTNET) for b in (1, 8)},
    **{f"convnext_b{b}": _network("convnext", (b, 3, 224, 224), b * CONVNEXT) for b in (1, 8)},
    **{f"densenet_b{b}": _network("densenet", (b, 3, 224, 224), b * DENSENET) for b in (1, 8)},
    **{f"shufflenet_b{b}": _network("shufflenet", (b, 3, 224, 224), b * SHUFFLENET) for b in (1, 8)},
    **{f"resnext_b{b}": _network("resnext", (b, 3, 224, 224), b * RESNEXT) for b in (1, 8)},
    **{f"swin_b{b}": _network("swin", (b, 3, 224, 224), b * SWIN) for b in (1, 8)},
    **{f"denoiser_b{b}": _network("denoiser", (b, 3, 32, 32), b * DENOISER) for b in (1, 8)},
    **{f"mobilenet_b{b}": _network("mobilenet", (b, 3, 224, 224), b * MOBILENET) for b in (1, 8)},
    **{f"resnet18_b{b}": _network("resnet18", (b, 3, 224, 224), b * 1_814_000_000) for b in (1, 8)},
    **{
        f"encoder6_b{b}": _network("encoder6", (b, 128, 384), 6 * b * 128 * (12 * 384**2 + 2 * 128 * 384))
        for b in (1, 8)
    },
}
