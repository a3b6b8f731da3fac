#!/usr/bin/env bash
# Writes what the drover binary is made of, as a CycloneDX document, to dist/drover.cdx.json. `make sbom` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.5.9
if ! cargo cyclonedx --version 2>/dev/null | grep -q "$version"; then
  echo "sbom: installing cargo-cyclonedx $version; takes about 3 minutes"
  cargo install --quiet --locked "cargo-cyclonedx@$version"
fi
target=${1:-x86_64-unknown-linux-musl}
# The tool writes beside the manifest of each crate of the workspace; the operator's names all the others.
cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" --override-filename drover-sbom
mkdir -p dist
# Where it was built is nobody's business, and would differ from build to build.
sed "s|path+file://$PWD/|path+file:///|g" crates/operator/drover-sbom.json >dist/drover.cdx.json
find crates -name drover-sbom.json -delete
echo "sbom: dist/drover.cdx.json"
