#!/usr/bin/env bash
# Brings a sandbox up, shows Drover's resources in it, and stays until Ctrl-C. `make demo` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/drover-demo.XXXXXX")
finish() {
  trap - EXIT
  sandbox/bin/sandbox down --dir "$dir" || true
  rm -rf "$dir"
}
trap finish EXIT
trap 'exit 0' INT TERM HUP

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '\033[1m$ %s\033[0m\n' "$*"; "$@"; }

say "A real Kubernetes API server and a simulated vCenter, on loopback"
sandbox/bin/sandbox up --dir "$dir" --owner $$
# shellcheck disable=SC1091
. "$dir/env"

say "Drover's kinds and the sample"
run kubectl apply --server-side -f config/crd/bases
run kubectl wait --for=condition=Established crd --all --timeout=30s
run kubectl create namespace myoperator-vms
run kubectl -n myoperator-vms apply -f config/samples/vm_v1alpha1_vmgroup.yaml
run kubectl -n myoperator-vms get vg
run govc find /DC0/vm

say "Look around, in another terminal"
cat <<HINTS
. $dir/env
kubectl -n myoperator-vms get vg
kubectl -n myoperator-vms describe vg vmgroup-sample
kubectl explain vmgroup.spec
govc find -l /
govc vm.info vm-operator-template
curl -s \$VCSIM_CONTROL/calls

Ctrl-C ends the demo and removes all of it.
HINTS
# Waits without a process of its own, which could outlive this one.
while :; do read -rt 3600 _ <> <(:) || :; done
