#!/usr/bin/env bash
# Writes config/prometheus/prometheusrule.yaml from config/prometheus/rules.yaml. A test compares the two.
set -euo pipefail
cd "$(dirname "$0")/../config/prometheus"
{
  cat <<'HEAD'
# Alerts for the Prometheus operator. Written by hack/prometheus-rule.sh from rules.yaml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: controller-manager-alerts
  namespace: system
  labels:
    app.kubernetes.io/name: drover
    control-plane: controller-manager
spec:
HEAD
  grep -v '^#' rules.yaml | sed 's/^/  /'
} >prometheusrule.yaml
