#!/usr/bin/env bash
# Usage: release.sh VERSION
#
# Writes everything of a release into DIST (dist/): image archives with their SBOMs, the chart, the manifests, the kubectl
# plugin, the clients, the changelog, provenance, signatures and checksums. make release runs it.
#
# PLATFORMS are those of the images and of the plugin: that of this machine, a list, or `all`. SIGNING_KEY is a private key.
# OTHER_PACKAGES=1 goes on if Debian has other versions of packages for the other architecture than this machine has.
# REGISTRY is what images.txt and the bundle name. Everything is written into a folder beside DIST, which takes its place when it
# is complete; an end by a signal leaves nothing. What a killed release has left is removed by the next one.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 dist=$(realpath -m "${DIST:-dist}") registry=${REGISTRY:-docker.io}
host=$(go env GOHOSTARCH)
all="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64"
platforms=${PLATFORMS:-linux/$host}
[ "$platforms" != all ] || platforms=$all

fail() { echo "release: $*" >&2; exit 1; }

# The architectures of the images: those of the platforms with Linux.
architectures=()
for platform in $platforms; do
	case " $all " in *" $platform "*) ;; *) fail "PLATFORMS has \"$platform\", which is none of $all" ;; esac
	[ "${platform%/*}" != linux ] || architectures+=("${platform#*/}")
done
((${#architectures[@]})) || fail "PLATFORMS has no linux/amd64 and no linux/arm64, so there would be no image"
[ -z "${SIGNING_KEY:-}" ] || [ -f "$SIGNING_KEY" ] || fail "SIGNING_KEY is $SIGNING_KEY, which is no file"
[ "$dist" = "$PWD/dist" ] || [ -z "$(ls -A "$dist" 2>/dev/null)" ] || fail "$dist is not empty"

# What a killed release has left is that of no running one: a running one has a lock.
for left in .release-*; do
	[ ! -d "$left" ] || ! flock --nonblock "$left" true || rm -rf "$left"
done
work=$(mktemp -d "$PWD/.release-XXXXXX")
exec 8<"$work"
flock 8
steps=
# The steps have a process group of their own, which ends before its files are removed.
finish() {
	local status=$?
	trap '' INT TERM HUP
	if [ -n "$steps" ]; then
		kill -TERM -- -"$steps" 2>/dev/null || true
		for _ in {1..100}; do kill -0 -- -"$steps" 2>/dev/null || break; sleep 0.1; done
		kill -KILL -- -"$steps" 2>/dev/null || true
		while kill -0 -- -"$steps" 2>/dev/null; do sleep 0.1; done
	fi
	rm -rf "$work"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 129' HUP
trap 'exit 143' TERM

set -m
VERSION=$version WORK=$work OUT=$work/dist REGISTRY=$registry PLATFORMS=$platforms ARCHITECTURES=${architectures[*]} TMPDIR=$work/tmp \
	hack/release-steps.sh 8<&- &
steps=$!
set +m
status=0
wait $steps || status=$?
[ $status = 0 ] || exit $status
steps=

# Both are renamed: at no time is there half of a release.
mkdir -p "$(dirname "$dist")"
if [ -e "$dist" ]; then mv -T "$dist" "$work/former"; fi
mv -T "$work/dist" "$dist"
echo "release $version:" && ls -l "$dist"
[ -n "${SIGNING_KEY:-}" ] || echo "release: nothing is signed: SIGNING_KEY=cosign.key names a private key (docs/reference/images.md#sign)"
echo "release: load an image on this machine with \`docker load --input FILE-linux-ARCH.tar\`, on a node with \`ctr -n k8s.io images import FILE-linux-ARCH.tar\`; copy images.txt to a registry as docs/reference/images.md#mirror says"
echo "release: install it as docs/guides/install.md says, or try it as docs/guides/try-on-kind.md says"
echo "release: it took $SECONDS s"
