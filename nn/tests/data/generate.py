#!/usr/bin/env python3
"""Writes the values that tests of this crate compare with, computed by PyTorch, scikit-learn and NumPy, as safetensors files.

    python3 -m venv VENV && VENV/bin/pip install torch numpy scikit-learn safetensors
    VENV/bin/python nn/tests/data/generate.py

layers.safetensors      NAME/in/N, NAME/out, NAME/param/PATH, NAME/grad/PATH, NAME/grad_in/N: outputs and gradients in f64, stored
                        as f32; a gradient is that of the sum of outputs times `cotangent(i)`; state/PATH is state behind the pass
optimizers.safetensors  NAME/step: a parameter after each step, f64; `start`, `grads`: before, and the gradients of each step
schedules.safetensors   NAME: the learning rate of each step, f64
metrics.safetensors     inputs and figures, f64
conv.safetensors, transformer.safetensors
                        param/PATH: a network before its first step; losses: those of each step, in f32
"""

from curves import conv, transformer
from figures import metrics
from layers import layers
from rules import optimizers, schedules

if __name__ == "__main__":
    for write in [layers, optimizers, schedules, metrics, conv, transformer]:
        write()
