#!/usr/bin/env bash
# Installs what the sandbox's node is made of, and what else tests need of the system, where that is missing and can be installed. `make test` calls it.
set -euo pipefail

skipped="tests that need a node are skipped"
[ "$(uname)" = Linux ] || { echo "node: only Linux can have one; $skipped"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "node: only root can have one; $skipped"; exit 0; }

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
has() { command -v "$1" >/dev/null; }
missing=()
{ has containerd && has containerd-shim-runc-v2; } || missing+=(containerd)
has runc || missing+=(runc)
has iptables || missing+=(iptables)
{ [ -e /usr/lib/cni/ptp ] || [ -e /opt/cni/bin/ptp ] || [ -e /usr/libexec/cni/ptp ]; } || missing+=(containernetworking-plugins)
# Of a program that is dynamic, ldd lists the libraries; of one that isn't there or is static, it says so and fails.
{ [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1; } || missing+=(busybox-static)
# Not the node's: what Argo CD's health scripts are tested with.
has lua5.1 || missing+=(lua5.1)
[ ${#missing[@]} -gt 0 ] || exit 0

has apt-get || { echo "node: ${missing[*]} missing, and no apt-get to install them; $skipped"; exit 0; }
echo "node: installing ${missing[*]}; takes about 15 s"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}"; }
# The list of packages may be missing too, or name versions that are gone.
if ! install >"$log" 2>&1 && ! { apt-get update && install; } >>"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "node: ${missing[*]} could not be installed; $skipped" >&2
fi
