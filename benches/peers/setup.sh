#!/usr/bin/env bash
# Makes benches/peers/.venv: the pinned peers and the compiled probe of the limits. Needs python3 (3.11), a C and a C++
# compiler (torch.compile uses the latter), about 5 GB of disk.
set -euo pipefail
cd "$(dirname "$0")"
[ -d .venv ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --no-deps --requirement requirements.txt
${CC:-cc} -O3 -Wall -Wextra -pthread -o .venv/bin/limits limits.c
echo "ready: benches/peers/.venv/bin/python benches/peers/run.py"
