#!/usr/bin/env bash
# Makes benches/peers/.venv: the pinned peers and the compiled probe of the limits. Needs python3 (3.11), a C and a C++
# compiler (torch.compile uses the latter), about 6 GB of disk; cargo for the peers that are Rust crates.
set -euo pipefail
cd "$(dirname "$0")"
[ -d .venv ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --no-deps --requirement requirements.txt
${CC:-cc} -O3 -Wall -Wextra -pthread -o .venv/bin/limits limits.c
if command -v cargo >/dev/null; then
    # As candle's own repository builds: its plain loops get the vectors of this CPU.
    RUSTFLAGS="-C target-cpu=native" cargo build --release --locked --manifest-path rust/Cargo.toml --target-dir .venv/rust
else
    echo "no cargo: candle and burn are left out"
fi
echo "ready: benches/peers/.venv/bin/python benches/peers/run.py"
