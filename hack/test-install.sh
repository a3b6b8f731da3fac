#!/usr/bin/env bash
# Installs, uses and removes Drover on the sandbox's node, from an image of this checkout. `make test-install` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/node-packages.sh
hack/image-packages.sh
# The node's registry speaks HTTP, which an engine would have to be configured for.
export IMAGE_BUILDER=buildah
echo "make: building the tests and the image; the first time takes about 5 minutes"
# What the tests build by the commands of the documentation is built before their clocks run.
cargo build --quiet --locked --package drover
cargo test --workspace --locked --no-run --quiet --test install
# Without a node, every test is skipped.
[ "$(uname)" != Linux ] || [ "$(id -u)" != 0 ] || PROFILE=quick hack/image.sh build controller:latest >/dev/null
cargo test --workspace --locked --quiet --test install -- --test-threads=2
