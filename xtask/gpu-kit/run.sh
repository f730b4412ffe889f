#!/bin/sh
# Runs everything in this folder on this machine's first CUDA device. Writes results.json and results.txt here, or into the
# folder that is given: ./run.sh [FOLDER] [--small] [--cpu]. Exit codes: 0 passed, 1 something failed, 3 there is no CUDA device,
# which one line says; then --cpu checks the rest on the CPU.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/bin/check" --kit "$here" "$@"
