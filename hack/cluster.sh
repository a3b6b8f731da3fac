#!/usr/bin/env bash
# Installs Drover into the cluster of the current kubeconfig, and removes it without touching a VM. The make targets call it:
#
#   hack/cluster.sh manifests    prints all of Drover's objects
#   hack/cluster.sh install      the kinds
#   hack/cluster.sh uninstall    the kinds, if no object of theirs is left
#   hack/cluster.sh deploy       all of Drover
#   hack/cluster.sh undeploy     the operator; kinds, objects, Secrets and VMs stay
#
# IMG is the image, NAMESPACE where the operator runs. KUBECTL and KUSTOMIZE are the programs to use.
set -euo pipefail
cd "$(dirname "$0")/.."

verb=${1:?manifests, install, uninstall, deploy or undeploy}
namespace=${NAMESPACE:-drover-system}
kubectl=${KUBECTL:-kubectl}
kustomize=${KUSTOMIZE:-kustomize}
definitions="vmgroups.vm.codeconnect.vmworld.com vcenters.vm.codeconnect.vmworld.com hostinfoes.topology.corinternal.com
  vminfoes.topology.corinternal.com myownshells.my-first-operator.jgato.io"
# The kinds whose objects the operator cleans up after: until it has, their finalizer keeps them.
finalized="vmgroups.vm.codeconnect.vmworld.com myownshells.my-first-operator.jgato.io"

refuse() { printf '%s\n' "$@" >&2; exit 1; }

# All objects but those of the folders that are named. What is set, is set in a copy, by the commands that one would set it with
# in config/ itself.
manifests() {
  local copy
  copy=$(mktemp -d)
  cp -R config "$copy"
  (
    cd "$copy/config/default"
    "$kustomize" edit set namespace "$namespace"
    # As kubebuilder names them: what is in hostinfo-system is called hostinfo-….
    "$kustomize" edit set nameprefix "${namespace%-system}-"
    for resource in "$@"; do "$kustomize" edit remove resource "$resource"; done
    cd ../manager
    [ -z "${IMG:-}" ] || "$kustomize" edit set image "controller=$IMG"
  ) >&2
  "$kustomize" build "$copy/config/default" || { rm -rf "$copy"; exit 1; }
  rm -rf "$copy"
}

# Objects of a kind, as NAMESPACE/NAME; none where the kind is not installed.
objects() {
  "$kubectl" get crd "$1" -o name >/dev/null 2>&1 || return 0
  "$kubectl" get "$1" --all-namespaces --no-headers -o 'custom-columns=NS:.metadata.namespace,N:.metadata.name,D:.metadata.deletionTimestamp'
}

uninstall() {
  local definition left
  # An answer is needed for each: not to know is not to have none.
  "$kubectl" get crd -o name >/dev/null
  for definition in $finalized; do
    left=$(objects "$definition" | awk '{ print "  " $1 "/" $2 }')
    [ -z "$left" ] || refuse "Not uninstalled: this would delete these ${definition%%.*}, and a VmGroup that is deleted destroys its VMs:" "$left" \
      "To remove the operator and keep the VMs, use 'make undeploy'. To destroy the VMs too, run" \
      "'kubectl delete ${definition%%.*} --all --all-namespaces' while the operator runs, then 'make undeploy' and 'make uninstall'."
  done
  for definition in $definitions; do
    "$kubectl" get crd "$definition" -o name >/dev/null 2>&1 || continue
    "$kubectl" annotate crd "$definition" --overwrite vm.codeconnect.vmworld.com/allow-deletion=true
    "$kubectl" delete crd "$definition"
  done
  "$kubectl" delete validatingadmissionpolicybindings,validatingadmissionpolicies --selector app.kubernetes.io/name=drover
}

undeploy() {
  local kind ending
  for kind in $finalized; do
    ending=$(objects "$kind" | awk '$3 != "<none>" { print "  " $1 "/" $2 }')
    [ -z "$ending" ] || refuse "Not undeployed: these ${kind%%.*} are being deleted, and without the operator they would never end:" "$ending" \
      "Wait until they are gone ('kubectl get ${kind%%.*} --all-namespaces'), and try again."
  done
  # The operator ends before its rights do, so that it gives back its Lease, and is gone when this returns.
  "$kubectl" --namespace "$namespace" delete deployment "${namespace%-system}-controller-manager" --cascade=foreground --ignore-not-found
  # The namespace stays with the Secrets in it, and the kinds with what keeps them.
  manifests ../crd ../removal | without_namespace | "$kubectl" delete --ignore-not-found -f -
  echo "The operator is gone. VMs go on as they are. VmGroups, kinds and the namespace $namespace with its Secrets are kept;"
  echo "'make deploy' goes on with the same VMs."
}

without_namespace() { awk 'BEGIN { RS = "---\n"; ORS = "" } !/(^|\n)kind: Namespace\n/ { print "---\n" $0 }'; }

case $verb in
manifests) manifests ;;
install) "$kustomize" build config/crd | "$kubectl" apply -f - ;;
uninstall) uninstall ;;
deploy) manifests | "$kubectl" apply -f - ;;
undeploy) undeploy ;;
*) refuse "hack/cluster.sh: no such word: $verb" ;;
esac
