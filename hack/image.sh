#!/usr/bin/env bash
# Builds and pushes the operator's image. `make docker-build`, `make docker-push` and `make image` call it.
#
#   hack/image.sh build IMG    PROFILE=release (default), or quick for tests: not optimised, built in a fraction of the time
#   hack/image.sh stage        only puts what the image holds into bin/linux/ARCH
#   hack/image.sh push IMG
#   hack/image.sh save IMG FILE   writes it into an OCI archive
#   hack/image.sh check IMG    fails if the image or the program in it is larger than promised
set -euo pipefail
cd "$(dirname "$0")/.."

verb=${1:?build, stage, push, save or check}
[ "$verb" = stage ] || image=${2:?the name of the image, such as registry.example.com/drover:v0.1.0}
profile=${PROFILE:-release}
target_dir=${CARGO_TARGET_DIR:-target}
binary_limit=16000000 image_limit=20000000

say() { printf 'image: %s\n' "$*"; }
has() { command -v "$1" >/dev/null; }

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) echo "hack/image.sh: no image is built on $(uname -m)" >&2; exit 2 ;;
esac
staged=bin/linux/$arch

# The first engine that answers, unless IMAGE_BUILDER names one. buildah needs none.
builder() {
  if [ -n "${IMAGE_BUILDER:-}" ]; then echo "$IMAGE_BUILDER"
  elif has docker && docker info >/dev/null 2>&1; then echo docker
  elif has podman && podman info >/dev/null 2>&1; then echo podman
  elif has buildah; then echo buildah
  else
    echo "hack/image.sh: docker, podman or buildah is needed; hack/image-packages.sh installs buildah on Debian and its kin" >&2
    exit 2
  fi
}
[ "$verb" = stage ] || builder=$(builder)
if [ "${builder:-}" = buildah ]; then
  # In a container there may be no right to mount, nor to have namespaces.
  export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
  buildah info >/dev/null 2>&1 || export STORAGE_DRIVER=vfs
fi

# Compiles here what the image's last stage packs.
compile() {
  local target
  target=$(uname -m | sed s/arm64/aarch64/)-unknown-linux-musl
  # What is released says what it was built from. A test's image is built too often for that.
  [ "$profile" != release ] || export DROVER_REVISION=${DROVER_REVISION:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
  # Relocations that are packed take half a megabyte less.
  cargo rustc --quiet --locked --package drover --bin drover --profile "$profile" --target "$target" -- \
    -C link-arg=-Wl,-z,pack-relative-relocs
  rm -rf "$staged"
  install -D "$target_dir/$target/$profile/drover" "$staged/drover"
  # Those that this machine trusts, its owner's own included.
  install -D -m 644 "$(authorities)" "$staged/etc/ssl/certs/ca-certificates.crt"
}

authorities() {
  for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    [ -z "$file" ] || [ ! -s "$file" ] || { echo "$file"; return; }
  done
  echo "hack/image.sh: this machine has no bundle of certificate authorities: install ca-certificates" >&2
  exit 2
}

can_compile() { [ "$(uname)" = Linux ] && has cargo && has musl-gcc; }

build() {
  local arguments=(--tag "$image"
    --build-arg "VERSION=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
    --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)")
  if can_compile; then
    stage
    arguments+=(--build-arg BINARY=prebuilt --build-arg "TARGETARCH=$arch")
  fi
  say "building $image with $builder"
  "$builder" build "${arguments[@]}" .
}

# The lock is held until the image is built.
stage() {
  # One at a time: they share the folder that is packed.
  mkdir -p bin
  exec 9>bin/.lock
  flock 9
  say "compiling the $profile profile"
  compile
}

# The image's content in bytes, uncompressed.
size() {
  case $builder in
  buildah) buildah images --json "$image" | sed -n 's/.*"size": "\([^"]*\)".*/\1/p' | to_bytes ;;
  *) "$builder" image inspect --format '{{.Size}}' "$image" ;;
  esac
}

to_bytes() { awk '{ print int($1 * ($2 == "GB" ? 1e9 : $2 == "MB" ? 1e6 : $2 == "KB" ? 1e3 : 1)) }'; }

check() {
  local binary=0 content
  # What is compiled inside of the image isn't here; the image is larger than it, in any case.
  ! can_compile || binary=$(stat -c %s "$staged/drover")
  content=$(size)
  say "the program is $binary bytes (limit $binary_limit), the image $content (limit $image_limit)"
  [ "$binary" -le $binary_limit ] && [ "$content" -le $image_limit ] || { echo "hack/image.sh: larger than promised" >&2; exit 1; }
}

save() {
  rm -f "$1"
  case $builder in
  docker) docker save --output "$1" "$image" ;;
  podman) podman save --quiet --format oci-archive --output "$1" "$image" ;;
  buildah) buildah push --quiet "$image" "oci-archive:$1:$image" ;;
  esac
}

case $verb in
build) build ;;
stage) can_compile || { echo "hack/image.sh: cargo and musl-gcc are needed, on Linux" >&2; exit 2; }; stage ;;
push) "$builder" push "$image" ;;
save) save "${3:?the file to write}" ;;
check) check ;;
*) echo "hack/image.sh: no such word: $verb" >&2; exit 2 ;;
esac
