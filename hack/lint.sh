#!/usr/bin/env bash
# Everything that can be said about the code without running it. `make lint` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1mlint: %s\033[0m\n' "$*"; }
# Installs a cargo command of a fixed version where it is missing.
tool() {
  command -v "$1" >/dev/null && return
  say "installing $1; takes about $3"
  cargo install --quiet --locked "$1@$2"
}

say "format"
cargo fmt --all --check
unformatted=$(gofmt -l sandbox)
[ -z "$unformatted" ] || { echo "gofmt -w is needed on: $unformatted" >&2; exit 1; }

say "clippy and vet"
cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings
# shellcheck disable=SC2086
(cd sandbox && go vet ${GO_FLAGS-} ./...)
# The fuzz targets are workspaces of their own. They are checked and not linked, so the fuzzer's own library need not be compiled.
for crate in core vim25; do
  lock=crates/$crate/fuzz/Cargo.lock
  [ "$lock" -nt Cargo.lock ] || cp Cargo.lock "$lock"
  CUSTOM_LIBFUZZER_PATH=$PWD/none/libnone.a cargo check --quiet --manifest-path "crates/$crate/fuzz/Cargo.toml"
done

say "rooms"
cargo xtask rooms

say "generated files"
generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
cargo run --quiet --locked --package drover -- crds --output-dir "$generated"
diff -ru "$generated" config/crd/bases || { echo "config/crd/bases is not what the types give: run 'make manifests'" >&2; exit 1; }
cargo xtask codegen --check
KUSTOMIZE=$PWD/bin/kustomize hack/cluster.sh manifests 2>/dev/null | diff -u - dist/install.yaml ||
  { echo "dist/install.yaml is not what config gives: run 'make build-installer'" >&2; exit 1; }
cargo xtask docs --check
cargo xtask benchmarks --check
cargo xtask reliability --check
cargo xtask bundle --check bin/kustomize
mkdir -p "$generated/chart" && cp -R charts/drover/. "$generated/chart" && hack/chart.sh "$generated/chart"
diff -ru charts/drover "$generated/chart" || { echo "charts/drover is not what config gives: run 'make chart'" >&2; exit 1; }

say "licences, sources and duplicates"
tool cargo-deny 0.20.2 "5 minutes"
cargo deny --locked check --hide-inclusion-graph bans licenses sources
if cargo deny fetch db >/dev/null 2>&1; then
  cargo deny --locked check --hide-inclusion-graph advisories
else
  say "advisories skipped: their database can't be reached from here"
fi

say "unused dependencies"
tool cargo-machete 0.9.2 "half a minute"
cargo machete
