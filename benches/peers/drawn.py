"""Parameters of the networks of `zoo.py` and `images.py`."""

import numpy as np


def drawn(shapes):
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


def dense(name, inputs, outputs):
    return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,))]
