#!/usr/bin/env bash
# Checks what users install besides config/: the Helm chart and the OLM bundle. `make test-packages` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'packages: %s\n' "$*" >&2; exit 1; }

echo "packages: the chart is well-formed"
bin/helm lint --strict --quiet charts/drover

echo "packages: the chart's objects are those of config/default"
# Both as kustomize writes them. Helm makes the namespace itself, and its kinds say that they are kept.
canonical() {
  mkdir -p "$work/$1"
  cat >"$work/$1/objects.yaml"
  cat >"$work/$1/kustomization.yaml" <<-YAML
	sortOptions: {order: legacy}
	resources: [objects.yaml]
	patches:
	- target: {kind: Namespace}
	  patch: "{apiVersion: v1, kind: Namespace, metadata: {name: any}, \$patch: delete}"
	- target: {kind: CustomResourceDefinition}
	  patch: "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: any, annotations: {helm.sh/resource-policy: null}}}"
	YAML
  bin/kustomize build "$work/$1"
}
render() { bin/helm template drover charts/drover --namespace drover-system "$@"; }
render --set image.repository=controller --set image.tag=latest | canonical helm >"$work/helm.yaml"
bin/kustomize build config/default | canonical kustomize >"$work/kustomize.yaml"
diff -u "$work/kustomize.yaml" "$work/helm.yaml" || fail "the chart's objects differ from those of config/default"

echo "packages: with cert-manager's certificates, too, and in whichever namespace"
# As config/default says: the lines after that comment lose their #, and cert-manager's own objects are for who has cert-manager.
cp -R config hack "$work"
sed -i '/^# Certificates of the webhook/,/^$/s/^#\([^ ]\)/\1/' "$work/config/default/kustomization.yaml"
with_certificates() { (cd "$work" && KUSTOMIZE=$OLDPWD/bin/kustomize NAMESPACE=$1 IMG=controller:latest hack/cluster.sh manifests 2>/dev/null); }
with_certificates drover-system >"$work/certificates.yaml"
for name in Issuer Certificate; do grep -q "^kind: $name\$" "$work/certificates.yaml" || fail "there is no $name"; done
awk 'BEGIN { RS = "---\n"; ORS = "---\n" } !/\nkind: (Issuer|Certificate)\n/' "$work/certificates.yaml" | canonical certificates >"$work/certificates-kustomize.yaml"
render --set image.repository=controller --set image.tag=latest --set webhook.certificateSecret=webhook-server-cert \
  --set 'webhook.annotations.cert-manager\.io/inject-ca-from=drover-system/drover-serving-cert' | canonical certificates-of-chart |
  diff -u "$work/certificates-kustomize.yaml" - || fail "the chart's objects differ from those of config/default with config/certmanager"
with_certificates team-system >"$work/certificates.yaml"
for text in 'cert-manager.io/inject-ca-from: team-system/team-serving-cert' '- team-webhook-service.team-system.svc' 'name: team-webhook-issuer'; do
  grep -q -- " $text\$" "$work/certificates.yaml" || fail "nowhere is $text"
done
render --set webhook.certificateSecret=own --set-file webhook.caBundle=<(printf -- '-----BEGIN CERTIFICATE-----\nx\n') |
  grep -q "^    caBundle: $(printf -- '-----BEGIN CERTIFICATE-----\nx\n' | base64)\$" || fail "caBundle is missing"

echo "packages: every kind is kept when the release goes"
kinds=$(ls config/crd/bases | wc -l)
kept=$(render | grep -c 'helm.sh/resource-policy: keep')
[ "$kinds" = "$kept" ] || fail "$kept of $kinds kinds are kept"

echo "packages: values that are none are refused"
for value in replica=3 log.format=xml image.digest=latest 'controllers[0]=vmgroups' webhook.caBundle=x; do
  ! render --set "$value" >/dev/null 2>&1 || fail "--set $value is let in"
done

echo "packages: values reach the operator"
render --set 'namespaces={a,b}' --set clusterID=old --set insecure=true --set 'controllers={*,-myownshell}' \
  --set otlpEndpoint=http://collector:4318 --set log.level=debug --set metrics.certificateSecret=cert >"$work/set.yaml"
for argument in --namespaces=a,b --cluster-id=old --insecure '--controllers=\*,-myownshell' --otlp-endpoint=http://collector:4318 \
  --log-level=debug --metrics-cert-dir=/etc/metrics-certificate; do
  grep -q -- "- $argument\$\|- \"$argument\"\$" "$work/set.yaml" || fail "$argument is missing"
done

echo "packages: what can be switched is"
render --set metrics.serviceMonitor=true --set metrics.prometheusRule=true >"$work/on.yaml"
render --set crds.install=false --set rbac.create=false --set networkPolicy.enabled=false --set podDisruptionBudget.enabled=false \
  --set priorityClass.create=false --set removalProtection.enabled=false --set metrics.enabled=false --set webhook.enabled=false >"$work/off.yaml"
for kind in ServiceMonitor PrometheusRule; do grep -q "^kind: $kind\$" "$work/on.yaml" || fail "there is no $kind"; done
[ "$(grep '^kind: ' "$work/off.yaml")" = "kind: Deployment" ] || fail "not all can be switched off: $(grep '^kind: ' "$work/off.yaml")"
# Both as kustomize has them, but for the prefix of their names.
bin/kustomize build config/prometheus | sed 's/^  name: /  name: drover-/' | canonical rules >"$work/rules.yaml"
awk 'BEGIN { RS = "---\n"; ORS = "---\n" } /kind: (ServiceMonitor|PrometheusRule)\n/' "$work/on.yaml" | canonical rules-of-chart | diff -u "$work/rules.yaml" - ||
  fail "the chart's alerts differ from those of config/prometheus"

echo "packages: the bundle is one that OLM takes"
[ -s bundle/manifests/drover.clusterserviceversion.yaml ] || fail "there is no bundle: make bundle"
said=$(bin/operator-verify manifests bundle 2>&1)
[ -z "$said" ] || fail "$said"
