#!/usr/bin/env bash
# Throws broken input at all that reads what others have written: for a minute altogether, or for as many seconds as are given, at all
# targets or at the one that is named. With KEEP=1, what reached new code is added to the seeds, as few of it as reach the same. `make fuzz`
# calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each target, with the crate that it is of, and what it is about.
targets='reader vim25 answers of vCenter
marker core markers in extraConfig
guest core text for cloud-init
resources core objects of the API server'

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

seconds=${1:-60} only=${2:-}
[ -z "$only" ] || targets=$(grep "^$only " <<<"$targets") || { echo "fuzz: there is no target $only" >&2; exit 2; }
each=$((seconds / $(wc -l <<<"$targets")))

work=$(mktemp -d "${TMPDIR:-/tmp}/drover-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Does something with a target of a crate.
fuzz() { cargo +nightly fuzz "$1" --fuzz-dir "crates/$2/fuzz" --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/fuzz" "${@:3}"; }

say "building; takes about 6 minutes, and one after a change"
for crate in $(cut -d ' ' -f 2 <<<"$targets" | sort -u); do fuzz build "$crate"; done

while read -r target crate what; do
  # A copy, because the fuzzer adds to its corpus. What it adds stays only where KEEP asks for it.
  cp -r "crates/$crate/fuzz/corpus/$target" "$work/$target"
  words=crates/$crate/fuzz/$target.dict
  if ! fuzz run "$crate" "$target" "$work/$target" -- -max_total_time="$each" -timeout=10 -artifact_prefix="$work/" \
    -print_final_stats=1 $([ ! -e "$words" ] || echo "-dict=$words") >"$work/log" 2>&1 </dev/null; then
    trap - EXIT
    tail -n 40 "$work/log" >&2
    echo "fuzz: $target, $what: one of them breaks it, and is in $work, with the whole log" >&2
    exit 1
  fi
  if [ "${KEEP-}" = 1 ]; then
    # The seeds come first, so that they stay the ones that are known for what they reach.
    seeds=crates/$crate/fuzz/corpus/$target
    before=$(find "$seeds" -type f | wc -l)
    fuzz run "$crate" "$target" "$seeds" "$work/$target" -- -merge=1 >"$work/log.merge" 2>&1 </dev/null || { tail -n 40 "$work/log.merge" >&2; exit 1; }
    say "$target: $(($(find "$seeds" -type f | wc -l) - before)) inputs more are kept in $seeds"
  fi
  say "$target, $what: none of $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log") breaks it, in $each s"
done <<<"$targets"
