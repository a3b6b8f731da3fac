#!/usr/bin/env bash
# Brings a sandbox up, runs Drover on it, heals a machine before your eyes, and stays until Ctrl-C. `make demo` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/drover-demo.XXXXXX")
drover=${DROVER:-${CARGO_TARGET_DIR:-target}/release/drover}
finish() {
  trap - EXIT
  if [ -n "${operator:-}" ]; then
    kill "$operator" 2>/dev/null || true
    wait "$operator" || true
  fi
  sandbox/bin/sandbox down --dir "$dir" || true
  rm -rf "$dir"
}
trap finish EXIT
trap 'exit 0' INT TERM HUP

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '\033[1m$ %s\033[0m\n' "$*"; "$@"; }
# Shows the group each time it has changed, until it is as declared.
watch_group() {
  local shown="" now
  while [[ $shown != *RUNNING*successfully* ]]; do
    now=$(kubectl -n myoperator-vms get vg --no-headers)
    [ "$now" = "$shown" ] || printf '%s\n' "$now"
    shown=$now
    sleep 0.2
  done
}

say "A real Kubernetes API server and a simulated vCenter, on loopback; a clone takes 2 s"
sandbox/bin/sandbox up --dir "$dir" --owner $$ --clone-delay 2s
# shellcheck disable=SC1091
. "$dir/env"

say "Drover and its kinds"
run kubectl apply --server-side -f config/crd/bases
kubectl wait --for=condition=Established crd --all --timeout=30s >/dev/null
sandbox/bin/sandbox keep --owner $$ --log "$dir/log/drover.log" -- "$drover" run &
operator=$!
run kubectl create namespace myoperator-vms
run kubectl -n myoperator-vms apply -f config/samples/vm_v1alpha1_vmgroup.yaml
watch_group
run govc find /DC0/vm -type m

# Not in one pipe: grep stops at the first, and govc would fail for want of a reader.
machines=$(govc find /DC0/vm -type m)
machine=$(grep -m1 replica <<<"$machines")
say "Somebody powers a machine off in vCenter"
run govc vm.power -off -force "$machine"
until [ "$(govc object.collect -s "$machine" runtime.powerState)" = poweredOn ]; do sleep 0.1; done
echo "healed: $machine is powered on again"

say "Look around, in another terminal"
cat <<HINTS
. $dir/env
kubectl -n myoperator-vms get vg
kubectl -n myoperator-vms scale vg vmgroup-sample --replicas 5
kubectl -n myoperator-vms describe vg vmgroup-sample
kubectl explain vmgroup.spec
govc find -l /
curl -s \$VCSIM_CONTROL/calls
tail -f $dir/log/drover.log

Ctrl-C ends the demo and removes all of it.
HINTS
# Waits without a process of its own, which could outlive this one.
while :; do read -rt 3600 _ <> <(:) || :; done
