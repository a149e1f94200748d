#!/bin/sh
# Checks what lies here without a cluster: `kubectl kustomize' builds the manifests, kubernetes-validate
# (from PyPI) holds them to Kubernetes' schemas, promtool (Debian: prometheus) reads the alerts. What
# is not installed is skipped, and said so.
set -eu
cd "$(dirname "$0")"
for overlay in replicas gateway ranks hosts; do
    if ! command -v kubectl >/dev/null; then
        echo "skipped: kubectl is not here"
        break
    fi
    built=$(mktemp)
    kubectl kustomize "kubernetes/$overlay" >"$built"
    echo "$overlay: $(grep -c '^kind:' "$built") objects"
    if command -v kubernetes-validate >/dev/null; then
        # schemas of the extensions (InferencePool, HTTPRoute, LeaderWorkerSet) are not among Kubernetes' own
        kubernetes-validate --strict --no-warn "$built"
    else
        echo "skipped: kubernetes-validate is not here"
    fi
    rm -f "$built"
done
if command -v promtool >/dev/null; then
    promtool check rules prometheus/alerts.yaml
    rules=$(mktemp) # the dashboard's expressions, as rules
    python3 - grafana/linnet.json >"$rules" <<'EOF'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    panels = json.load(file)["panels"]
rules = [{"record": f"panel:{panel['id']}:{i}", "expr": target["expr"].replace("$instance", ".*")}
         for panel in panels for i, target in enumerate(panel["targets"])]
json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, sys.stdout)
EOF
    promtool check rules "$rules"
    rm -f "$rules"
else
    echo "skipped: promtool is not here"
fi
