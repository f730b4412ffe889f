#!/usr/bin/env bash
# Runs every target in src/bin for SECONDS each on the stable toolchain, one on each core; a crash fails and leaves its input in
# target/artifacts. A target is one file in src/bin, and its first inputs, if any, are the files in seeds/TARGET.
set -euo pipefail
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET…]}
shift
cd "$(dirname "$0")"

# What `cargo fuzz` passes, less the sanitizers, which need a nightly compiler. With --target the flags do not reach
# build scripts.
triple=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
export CARGO_TARGET_DIR="$PWD/target"
cargo build --release --bins --target "$triple"

# Some targets write files for each case: in memory where the system has a folder there.
TMPDIR=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$TMPDIR"' EXIT
export TMPDIR

targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .rs src/bin/*.rs)
fuzz() {
    local target=$1 folders=("target/corpus/$1")
    [ -d "seeds/$target" ] && folders+=("seeds/$target")
    mkdir -p "target/corpus/$target" target/artifacts
    "target/$triple/release/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -verbosity=0 \
        -artifact_prefix="target/artifacts/$target-" -print_final_stats=1 "${folders[@]}" 2>&1 | sed "s/^/$target: /"
}
export -f fuzz
export seconds triple
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I {} bash -euo pipefail -c 'fuzz {}'
