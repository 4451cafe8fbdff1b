#!/usr/bin/env bash
# Usage: release-clients.sh VERSION FOLDER
#
# Writes the clients of a release into a folder, which exists: the npm package, and the Go module as the files of a module proxy. The version is
# 1.2.3 or v1.2.3, as in the tag.
# NODE_MODULES is a folder of the packages that clients/typescript/package-lock.json pins, if they are installed already.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 2 ]; then
	echo "usage: release-clients.sh VERSION FOLDER" >&2
	exit 2
fi
version=v${1#v} # as the tag, which a Go module needs
if ! [[ $version =~ ^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "release-clients.sh: $1 is no version such as 0.1.0 or v0.1.0" >&2
	exit 2
fi
if [ ! -d "$2" ]; then
	echo "release-clients.sh: there is no folder $2" >&2
	exit 2
fi
out=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The Go module first: it is quick, and has the stricter rules for versions.
cp -r clients/go "$work/go"
cp LICENSE "$work/go"
go -C hack/images run . module --version "$version" --created "$(git log -1 --format=%ct 2>/dev/null || echo 0)" "$work/go" "$work/proxy"
tar --create --directory "$work/proxy" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w . | gzip -n >"$out/mediastack-client-go-$version.tar.gz"

mkdir "$work/typescript"
cp -r clients/typescript/{src,README.md,package.json,package-lock.json,tsconfig.json} LICENSE "$work/typescript"
(
	cd "$work/typescript"
	if [ -n "${NODE_MODULES:-}" ]; then
		ln -s "$NODE_MODULES" node_modules
	else
		npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	fi
	npm version --no-git-tag-version --allow-same-version --loglevel=error "${version#v}" >/dev/null
	npm run --silent build
	npm pack --ignore-scripts --loglevel=error --pack-destination "$out" >/dev/null
)
