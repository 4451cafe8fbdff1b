#!/usr/bin/env bash
# Usage: release-check.sh VERSION
#
# Says what is missing for a release of a version, the most important first, and fails: a version of the right form, its
# section in the changelog, npm, and that make nightly has passed on this commit, unless the commit has the tag of the version
# already. NIGHTLY=skip goes on without make nightly. make release runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
missing() { echo "release: $*" >&2; status=1; }

# Not a program: the first line should not wait for a compiler.
number='(0|[1-9][0-9]*)' word='(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)'
if ! [[ $1 =~ ^v$number\.$number\.$number(-$word(\.$word)*)?$ && ${#1} -le 63 ]]; then
	missing "VERSION must be a semantic version after a v, such as v0.1.0 or v0.2.0-rc.1, not \"$1\": make release VERSION=v0.1.0"
	exit $status
fi
# A pre-release has no section of its own.
section=${1#v}
[[ $1 != *-* ]] || section=Unreleased
if ! grep -q "^## \[$section\]" CHANGELOG.md; then
	line=$(grep -n -m 1 '^## \[Unreleased\]' CHANGELOG.md | cut -d: -f1) || line=
	missing "CHANGELOG.md has no section [$section]: write the line \"## [$section]\" and an empty line after line $((${line:-4} + 1)), below \"## [Unreleased]\", so that what is unreleased becomes this version"
fi
command -v npm >/dev/null || [ -n "${NODE_MODULES:-}" ] || missing "npm is missing, with which the TypeScript client is built: on Debian, run \`apt-get install npm\` as root"
case " ${PLATFORMS:-} " in *" all "* | *" linux/arm64 "*)
	[ "$(go env GOHOSTARCH)" = arm64 ] || command -v aarch64-linux-gnu-gcc >/dev/null ||
		missing "the compiler for arm64 is missing: on Debian, run \`apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross\` as root" ;;
esac
if [ $status = 0 ] && [ "${NIGHTLY:-}" != skip ]; then
	commit=$(git describe --always --abbrev=40 --exclude='*' --dirty)
	if [[ $commit == *-dirty ]] || [ "$(git describe --tags --exact-match --match "$1" 2>/dev/null)" != "$1" ]; then
		steps=$(mktemp)
		trap 'rm -f "$steps"' EXIT
		if ! go run ./hack/nightly --status >"$steps" 2>&1; then
			missing "not every step of make nightly has passed on this commit ($commit): run make nightly CONTINUE=1, or set NIGHTLY=skip to go on without it"
			cat "$steps" >&2
		fi
	fi
fi
exit $status
