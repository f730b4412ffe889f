"""Outputs and gradients of layers."""

import torch
from torch import nn

from store import ours, save

DECODER = ("around_attention", "around_memory_attention", "around_feed_forward")


def cotangent(shape):
    """The weight of each element of an output in the sum whose gradient is taken."""
    count = torch.Size(shape).numel()
    return torch.tensor([(i * 7 % 11 - 5) / 8 for i in range(count)], dtype=torch.float64).reshape(shape)


def layers():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    stored = {}

    def case(name, layer, *inputs, call=None, norms=DECODER[::2]):
        params = dict(layer.named_parameters())
        with torch.no_grad():
            for value in params.values():
                # Scales and shifts that are 1 and 0 at first would hide a mistake.
                value.add_(0.1 * torch.randn_like(value))
        inputs = [x.requires_grad_(x.is_floating_point()) for x in inputs]
        stored.update({f"{name}/param/{path}": value.clone() for path, value in ours(params, norms).items()})
        out = (call or layer)(*inputs)
        (out * cotangent(out.shape)).sum().backward()
        grads = {path: value.grad for path, value in params.items()}
        stored.update({f"{name}/grad/{path}": value for path, value in ours(grads, norms).items()})
        stored.update({f"{name}/in/{at}": x for at, x in enumerate(inputs)})
        stored.update({f"{name}/grad_in/{at}": x.grad for at, x in enumerate(inputs) if x.grad is not None})
        stored[f"{name}/out"] = out
        running = {path: value for path, value in layer.named_buffers() if "running" in path}
        stored.update({f"{name}/state/{path}": value.clone() for path, value in running.items()})

    r = torch.randn
    case("dense", nn.Linear(5, 3), r(2, 4, 5))
    case("embedding", nn.Embedding(6, 4), torch.tensor([[1, 5, 0], [2, 2, 3]]))
    case("embedding_padding", nn.Embedding(6, 4, padding_idx=2), torch.tensor([[1, 5, 0], [2, 2, 3]]))
    case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), r(2, 4, 9))
    case("conv2d", nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=1), r(2, 3, 7, 5))
    case("conv2d_dilated", nn.Conv2d(2, 4, 3, padding=2, dilation=2, groups=2), r(1, 2, 6, 6))
    case("conv3d", nn.Conv3d(2, 3, (2, 3, 2), padding=1), r(1, 2, 4, 4, 3))
    case("conv_transpose1d", nn.ConvTranspose1d(4, 2, 3, stride=2, padding=1, output_padding=1), r(2, 4, 5))
    case("conv_transpose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), r(1, 4, 3, 4))
    case("conv_transpose3d", nn.ConvTranspose3d(2, 3, 2, stride=2, padding=1), r(1, 2, 3, 3, 2))
    case("batch_norm", nn.BatchNorm2d(3), r(4, 3, 2, 5) * 2 + 1)
    trained = nn.BatchNorm2d(3)
    trained(r(4, 3, 2, 5) * 2 + 1)
    stored.update({f"batch_norm_eval/before/{path}": value.clone() for path, value in trained.named_buffers() if "running" in path})
    case("batch_norm_eval", trained.eval(), r(2, 3, 2, 2))
    case("layer_norm", nn.LayerNorm([3, 4]), r(2, 3, 4))
    case("group_norm", nn.GroupNorm(2, 6), r(2, 6, 3))
    case("rms_norm", nn.RMSNorm(6, eps=1e-6), r(3, 6))
    case("instance_norm", nn.InstanceNorm2d(3), r(2, 3, 4, 2))
    case("prelu", nn.PReLU(3), r(2, 3, 4))
    case("lstm", (lstm := nn.LSTM(3, 4, batch_first=True)), r(2, 5, 3), call=lambda x: lstm(x)[0])
    case("gru", (gru := nn.GRU(3, 4, batch_first=True)), r(2, 5, 3), call=lambda x: gru(x)[0])
    heads = lambda: nn.MultiheadAttention(8, 2, batch_first=True)
    case("attention", (a := heads()), r(2, 5, 8), r(2, 3, 8), call=lambda x, m: a(x, m, m)[0])
    causal = nn.Transformer.generate_square_subsequent_mask
    case("attention_causal", (b := heads()), r(2, 5, 8), call=lambda x: b(x, x, x, attn_mask=causal(5), is_causal=True)[0])
    options = {"dim_feedforward": 12, "dropout": 0.0, "activation": "gelu", "batch_first": True}
    case("encoder", nn.TransformerEncoderLayer(8, 2, **options), r(2, 5, 8))
    case("encoder_pre_norm", nn.TransformerEncoderLayer(8, 2, norm_first=True, **options), r(2, 5, 8))
    for name, first in [("decoder", False), ("decoder_pre_norm", True)]:
        d = nn.TransformerDecoderLayer(8, 2, norm_first=first, **options)
        case(name, d, r(2, 5, 8), r(2, 4, 8), call=lambda x, m, d=d: d(x, m, tgt_mask=causal(5), tgt_is_causal=True), norms=DECODER)
    for at, pools in enumerate([(nn.MaxPool1d, nn.AvgPool1d), (nn.MaxPool2d, nn.AvgPool2d), (nn.MaxPool3d, nn.AvgPool3d)]):
        for name, pool in zip(("max_pool", "avg_pool"), pools):
            case(f"{name}{at + 1}d", pool(2), r(2, 3, *([5] * (at + 1))))
    for name, layer in [("relu6", nn.ReLU6()), ("gelu", nn.GELU()), ("silu", nn.SiLU()), ("mish", nn.Mish()), ("selu", nn.SELU()),
                        ("softplus", nn.Softplus()), ("hardsigmoid", nn.Hardsigmoid()), ("hardswish", nn.Hardswish()), ("elu", nn.ELU(0.7)),
                        ("leaky_relu", nn.LeakyReLU(0.2)), ("log_softmax", nn.LogSoftmax(-1))]:
        case(name, layer, r(3, 7) * 3)
    torch.set_default_dtype(torch.float32)
    save("layers", stored, "float32")
