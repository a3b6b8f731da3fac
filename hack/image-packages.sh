#!/usr/bin/env bash
# Installs what an image is built with, where that is missing and can be installed: the musl target and compiler, and buildah
# where there is no engine. `make docker-build` and `make test-install` call it.
set -euo pipefail

has() { command -v "$1" >/dev/null; }
[ "$(uname)" = Linux ] || exit 0
if has rustup; then
  target=$(uname -m)-unknown-linux-musl
  rustup target list --installed | grep -qx "$target" || rustup target add "$target"
fi
missing=()
has musl-gcc || missing+=(musl-tools)
{ has buildah || { has docker && docker info >/dev/null 2>&1; } || { has podman && podman info >/dev/null 2>&1; }; } || missing+=(buildah)
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] && has apt-get || { echo "image: ${missing[*]} missing, and only root can install them, with apt-get"; exit 0; }
echo "image: installing ${missing[*]}; takes about 15 s"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}"; }
# The list of packages may be missing too, or name versions that are gone.
if ! install >"$log" 2>&1 && ! { apt-get update && install; } >>"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "image: ${missing[*]} could not be installed" >&2
  exit 1
fi
