#!/usr/bin/env bash
# Puts each deliberate bug of hack/mutants.txt into a copy of the project, and fails for one that the histories don't find.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r Cargo.toml Cargo.lock rust-toolchain.toml crates "$work/"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/mutants HISTORIES=${N:-4000} SEED=1000000 RUST_BACKTRACE=0
histories() { (cd "$work" && cargo test --quiet --locked --package drover-core --test histories "$@") >"$work/log" 2>&1; }
give_up() { cat "$work/log"; echo "$1"; exit 1; }

histories || give_up "the histories fail without any bug"
survived=0 count=0
while IFS=$'\t' read -r file from to; do
  [[ $file == \#* ]] && continue
  source=$work/crates/core/src/$file
  cp "$source" "$work/before"
  FROM=$from TO=$to perl -0pi -e '$found += s/\Q$ENV{FROM}\E/$ENV{TO}/g; END { exit($found == 1 ? 0 : 1) }' "$source" ||
    give_up "$file: \"$from\" does not stand there once"
  histories --no-run || give_up "$file: it does not compile with \"$to\""
  count=$((count + 1)) outcome=found
  if histories; then survived=$((survived + 1)) outcome=survived; fi
  printf '%-9s %s: %s\n' "$outcome" "$file" "$to"
  cp "$work/before" "$source"
done <hack/mutants.txt
echo "$((count - survived)) of $count deliberate bugs found"
[[ $survived == 0 ]]
