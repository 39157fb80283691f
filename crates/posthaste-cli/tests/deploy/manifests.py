"""Checks Kubernetes manifests against the schemas that Kubernetes publishes. Prints each as a line of JSON."""
import json, sys
import kubernetes_validate, yaml

version, *files = sys.argv[1:]
for file in files:
    for manifest in yaml.safe_load_all(open(file)):
        if not manifest["apiVersion"].startswith("kustomize"):
            kubernetes_validate.validate(manifest, version, strict=True)
        print(json.dumps({"file": file.rsplit("/", 1)[1], **manifest}))
