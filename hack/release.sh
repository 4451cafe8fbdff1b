#!/usr/bin/env bash
# Usage: release.sh VERSION
#
# Writes everything of a release into DIST (dist/): image archives with their SBOMs, the chart, the
# manifests, the kubectl plugin for PLATFORMS, the clients, the changelog and checksums. make release runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 dist=$(realpath -m "${DIST:-dist}")
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}

fail() { echo "release: $*" >&2; exit 1; }

number='(0|[1-9][0-9]*)' word='(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)'
[[ $version =~ ^v$number\.$number\.$number(-$word(\.$word)*)?$ && ${#version} -le 63 ]] ||
	fail "VERSION must be a semantic version after a v, such as v0.1.0 or v0.2.0-rc.1, not \"$version\": make release VERSION=v0.1.0"
# A pre-release has no section of its own.
section=${version#v}
[[ $version != *-* ]] || section=Unreleased
grep -q "^## \[$section\]" CHANGELOG.md || fail "CHANGELOG.md has no section [$section]"

# What was there before must not become part of the release.
[ "$dist" = "$PWD/dist" ] || [ -z "$(ls -A "$dist" 2>/dev/null)" ] || fail "$dist is not empty"
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d "$PWD/.release-XXXXXX")
trap 'rm -rf "$work"' EXIT

make images VERSION="$version" BIN="$work/bin" DIST="$dist"

for platform in $platforms; do
	os=${platform%/*} arch=${platform#*/} program=kubectl-mediastack
	[ "$os" != windows ] || program+=.exe
	GOOS=$os GOARCH=$arch go build -ldflags "-s -w -X main.version=$version" -o "$work/plugin/$platform/$program" ./controllers/cmd/kubectl-mediastack
	"$work/bin/mediastack-images" licenses --bin "$work/bin" "$work/plugin/$platform/$program" "$work/archive/$platform"
	tar --create --directory "$work/archive/$platform" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner . |
		gzip -n >"$dist/kubectl-mediastack-$version-$os-$arch.tar.gz"
done

# render FOLDER: the objects of a folder of config/, with the version.
render() {
	mkdir -p "$work/manifests"
	cat >"$work/manifests/kustomization.yaml" <<-END
		apiVersion: kustomize.config.k8s.io/v1beta1
		kind: Kustomization
		resources: [../../config/$1]
		images:
		  - {name: mediastack/operator, newTag: $version}
		  - {name: mediastack/runtime, newTag: $version}
		labels:
		  - pairs: {app.kubernetes.io/version: $version}
		    includeTemplates: true
	END
	"$KUBECTL" kustomize "$work/manifests"
}
render default >"$dist/install.yaml"
render crd >"$dist/crds.yaml"

if [ -d charts/mediastack ]; then
	make helm
	"$HELM" package charts/mediastack --version "${version#v}" --app-version "$version" --destination "$dist" >/dev/null
fi

hack/release-clients.sh "$version" "$dist"

cp CHANGELOG.md LICENSE "$dist"
(cd "$dist" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
echo "release $version:" && ls -l "$dist"
