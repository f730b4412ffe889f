#!/bin/sh
# Runs everything in this folder on this machine's GPU; what needs one is skipped, visibly, where there is none, and the rest
# runs on the CPU. Writes results.json and results.txt here, or into the folder that is given: ./run.sh [FOLDER] [--small]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/bin/check" --kit "$here" "$@"
