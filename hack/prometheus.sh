#!/usr/bin/env bash
# Gets Prometheus and promtool where they are missing: Debian's package, unpacked into the target folder, so that nothing is installed
# and no service is started. `make test` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

skipped="tests that need Prometheus are skipped"
has() { command -v "$1" >/dev/null; }
tools=${CARGO_TARGET_DIR:-target}/tools
[ ! -x "$tools/prometheus/usr/bin/promtool" ] || exit 0
! { has prometheus && has promtool; } || exit 0
{ has apt-get && has dpkg-deb; } || { echo "prometheus: missing, and no apt-get to get it with; $skipped"; exit 0; }

echo "prometheus: getting Debian's; takes about 5 s"
mkdir -p "$tools"
work=$(mktemp -d "$tools/prometheus.XXXXXX")
trap 'rm -rf "$work"' EXIT
get() { (cd "$work" && apt-get download prometheus); }
# The list of packages may be missing too, or name versions that are gone.
if ! get >"$work/log" 2>&1 && ! { apt-get update && get; } >>"$work/log" 2>&1; then
  tail -n 20 "$work/log" >&2
  echo "prometheus: could not be got; $skipped" >&2
  exit 0
fi
dpkg-deb --extract "$work"/prometheus_*.deb "$work/unpacked"
# Another run may have been faster.
mv --no-target-directory "$work/unpacked" "$tools/prometheus" 2>/dev/null || [ -x "$tools/prometheus/usr/bin/promtool" ]
