#!/usr/bin/env bash
# Usage: release-manifests.sh VERSION FOLDER
#
# Writes install.yaml and crds.yaml of a version into a folder: the objects of config/default, and its definitions alone, with the
# version. KUBECTL is the program. REGISTRY goes before the names of the images, unless it is docker.io.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 out=$(realpath "$2") prefix=
[ "${REGISTRY:-docker.io}" = docker.io ] || prefix=$REGISTRY/
# Kustomize reads resources by paths that are relative to its file.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for pair in default=install.yaml crd=crds.yaml; do
	cat >"$work/kustomization.yaml" <<-END
		apiVersion: kustomize.config.k8s.io/v1beta1
		kind: Kustomization
		resources: [$(realpath --relative-to="$work" "config/${pair%=*}")]
		images:
		  - {name: mediastack/operator, newName: ${prefix}mediastack/operator, newTag: $version}
		  - {name: mediastack/runtime, newName: ${prefix}mediastack/runtime, newTag: $version}
		labels:
		  - pairs: {app.kubernetes.io/version: $version}
		    includeTemplates: true
	END
	"$KUBECTL" kustomize "$work" >"$out/${pair#*=}"
done
