#!/usr/bin/env bash
# Throws broken answers at the vSphere parser for a minute, or for as many seconds as are given. `make fuzz` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1mfuzz: %s\033[0m\n' "$*"; }
has() { "$@" >/dev/null 2>&1; }

has command -v rustup || { echo "fuzz: rustup is needed: the fuzzer is built by a nightly compiler, see https://rustup.rs" >&2; exit 2; }
if ! has cargo +nightly --version; then
  say "installing the nightly compiler; takes about a minute"
  rustup toolchain install nightly --profile minimal --no-self-update
fi
if ! has cargo fuzz --version; then
  say "installing cargo-fuzz; takes about 2 minutes"
  cargo install --quiet --locked cargo-fuzz@0.13.2
fi

fuzz() { cargo +nightly fuzz "$1" --fuzz-dir crates/vim25/fuzz --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/fuzz" reader "${@:2}"; }

say "building; takes about 3 minutes, and one after a change"
fuzz build

# A copy, because the fuzzer adds to its corpus.
work=$(mktemp -d "${TMPDIR:-/tmp}/vim25-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp -r crates/vim25/fuzz/corpus/reader "$work/corpus"

seconds=${1:-60}
say "throwing answers at the parser for $seconds s"
if ! fuzz run "$work/corpus" -- -max_total_time="$seconds" -artifact_prefix="$work/" -print_final_stats=1 >"$work/log" 2>&1; then
  trap - EXIT
  tail -n 40 "$work/log" >&2
  echo "fuzz: an answer breaks the parser; it is in $work, with the whole log" >&2
  exit 1
fi
say "no answer breaks the parser: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log") were tried"
