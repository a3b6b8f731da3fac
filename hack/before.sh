#!/usr/bin/env bash
# Builds the version before this one, once, and prints the folder with its operator (drover) and its kinds (crds/). That is the newest
# tag, or, while there is none, the last commit before there was anything to install.
set -euo pipefail
cd "$(dirname "$0")/.."

first=22c93389a4b7d5d9b0502e89fcbcb9276c3f9627
version=$(git describe --tags --abbrev=0 --match 'v*' HEAD 2>/dev/null || echo "$first")
# A tag that this very commit has is not before it.
if [ "$version" != "$first" ] && [ "$(git rev-parse "$version^{commit}")" = "$(git rev-parse HEAD)" ]; then
  version=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null || echo "$first")
fi
commit=$(git rev-parse --verify --quiet "$version^{commit}") || {
  echo "hack/before.sh: the commit $version is not here: fetch the whole history (git fetch --unshallow --tags)" >&2
  exit 3
}

cache=${DROVER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/drover}/before/$commit
if [ ! -x "$cache/drover" ]; then
  echo "hack/before.sh: building the version before ($version); takes about 4 minutes, once" >&2
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/build.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/src"
  git archive "$commit" | tar -x -C "$work/src"
  (cd "$work/src" && CARGO_TARGET_DIR=$work/target cargo build --quiet --locked --package drover) >&2
  strip --strip-debug "$work/target/debug/drover" 2>/dev/null || true
  rm -rf "$cache/crds"
  cp -r "$work/src/config/crd/bases" "$cache/crds"
  # Last, and at once: whoever finds it finds all of it.
  mv "$work/target/debug/drover" "$cache/drover"
fi
echo "$cache"
