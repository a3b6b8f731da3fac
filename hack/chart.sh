#!/usr/bin/env bash
# Writes those templates of the Helm chart that config/ says already: kinds, rights, policies, and what watches the operator. The
# Deployment alone is written by hand. `make chart` calls it, with the folder to write to; `make lint` compares.
set -euo pipefail
cd "$(dirname "$0")/.."
chart=${1:-charts/drover}
kustomize=${KUSTOMIZE:-bin/kustomize}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

mkdir -p "$chart/files/crds" "$chart/templates"
rm -f "$chart"/files/crds/*.yaml
cp config/crd/bases/*.yaml "$chart/files/crds/"

# One file for each object: its kind, and its place in the stream.
split() {
  "$kustomize" build "$1" | awk -v dir="$built" '
    function finish() { if (text != "") { file = sprintf("%s/%03d-%s", dir, n++, kind); printf "%s", text > file; close(file) } text = ""; kind = "none" }
    /^---$/ { finish(); next }
    /^kind: / { kind = $2 }
    { text = text $0 "\n" }
    END { finish() }'
}

# The objects of these kinds, as a template: in the release's namespace, with the release's names.
template() {
  local file=$chart/templates/$1 condition=$2 kind
  {
    echo "{{- /* Written by hack/chart.sh from config/. */ -}}"
    echo "{{- if $condition }}"
    for kind in "${@:3}"; do
      for object in "$built"/*-"$kind"; do
        [ -e "$object" ] || continue
        echo ---
        sed -e 's/drover-system/{{ .Release.Namespace }}/g' -e 's/\([:-]\) drover-/\1 {{ include "drover.fullname" . }}-/' \
          -e 's/^  name: controller-manager/  name: {{ include "drover.fullname" . }}-controller-manager/' "$object"
      done
    done
    echo "{{- end }}"
  } >"$file"
}

split config/default
# The webhook has a Service and rights of its own.
for object in "$built"/*-Service "$built"/*-ClusterRole "$built"/*-ClusterRoleBinding; do
  ! grep -q '^  name: drover-webhook-' "$object" || mv "$object" "$object-of-webhook"
done
template rbac.yaml .Values.rbac.create ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding
template networkpolicy.yaml .Values.networkPolicy.enabled NetworkPolicy
template poddisruptionbudget.yaml .Values.podDisruptionBudget.enabled PodDisruptionBudget
template priorityclass.yaml '.Values.priorityClass.create' PriorityClass
template removal.yaml .Values.removalProtection.enabled ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
template service.yaml .Values.metrics.enabled Service
template webhook.yaml .Values.webhook.enabled ValidatingWebhookConfiguration Service-of-webhook
# Who brings certificates says whom to trust.
sed -i -e '/^  name: .*-validating-webhook-configuration$/a\  {{- with .Values.webhook.annotations }}\n  annotations:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}' \
  -e '/^  clientConfig:$/a\    {{- with .Values.webhook.caBundle }}\n    caBundle: {{ b64enc . }}\n    {{- end }}' "$chart/templates/webhook.yaml"
template webhook-rbac.yaml 'and .Values.webhook.enabled .Values.rbac.create (not .Values.webhook.certificateSecret)' ClusterRole-of-webhook ClusterRoleBinding-of-webhook

rm -f "$built"/*
split config/prometheus
template servicemonitor.yaml .Values.metrics.serviceMonitor ServiceMonitor
# Alerts have braces of their own, so this one is no template but a file.
cp config/prometheus/rules.yaml "$chart/files/rules.yaml"
