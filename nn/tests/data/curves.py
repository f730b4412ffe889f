"""Losses of networks in training, in f32."""

import gzip

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from store import HERE, ours, save


def digits(count):
    """The first digits of the training data."""
    read = lambda name: gzip.decompress((HERE / "../../data" / name).read_bytes())
    images = numpy.frombuffer(read("digits-images.idx.gz")[16:], numpy.uint8).reshape(-1, 1, 28, 28)[:count]
    labels = numpy.frombuffer(read("digits-labels.idx.gz")[8:], numpy.uint8)[:count]
    return torch.from_numpy(images.astype("float32") / numpy.float32(255)), torch.from_numpy(labels.astype("int64"))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm, self.conv2, self.fc = nn.Conv2d(1, 6, 5, padding=2), nn.BatchNorm2d(6), nn.Conv2d(6, 8, 5), nn.Linear(200, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        return self.fc(F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1))


def curve(name, net, optimizer, loss, x, y, batch, steps, more=(), norms=("around_attention", "around_feed_forward")):
    """Batches in the order of the data, from the start again at its end."""
    stored = {f"param/{path}": value.clone() for path, value in ours(dict(net.named_parameters()), norms).items()} | dict(more)
    losses = []
    for step in range(steps):
        at = step * batch % len(x)
        optimizer.zero_grad()
        value = loss(net(x[at:at + batch]), y[at:at + batch])
        value.backward()
        optimizer.step()
        losses.append(value.item())
    print(f"{name}: {losses[0]:.4f} to {losses[-1]:.4f}")
    save(name, stored | {"losses": numpy.array(losses, "float32")})


def conv():
    torch.manual_seed(4)
    net = ConvNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    curve("conv", net, optimizer, F.cross_entropy, *digits(256), 32, 60)


class Transformer(nn.Module):
    """Reads 12 tokens of 16 kinds and tells the next at each position."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(16, 16), nn.Parameter(torch.randn(12, 16) * 0.1)
        layer = lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True)
        self.layers, self.head = nn.ModuleList([layer(), layer()]), nn.Linear(16, 16)
        self.mask = nn.Transformer.generate_square_subsequent_mask(12)

    def forward(self, x):
        x = self.tokens(x) + self.places
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True)
        return self.head(x).transpose(1, 2)


def transformer():
    torch.manual_seed(5)
    net = Transformer()
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.01)
    # Each token follows from the two before it, but for one in ten.
    draw, rows = numpy.random.default_rng(6), []
    for _ in range(64):
        row = list(draw.integers(0, 16, 2))
        while len(row) < 13:
            row.append(draw.integers(0, 16) if draw.random() < 0.1 else (row[-1] + 3 * row[-2]) % 16)
        rows.append(row)
    tokens = torch.tensor(numpy.array(rows, "int64"))
    curve("transformer", net, optimizer, F.cross_entropy, tokens[:, :-1], tokens[:, 1:], 8, 80, {"tokens": tokens})
