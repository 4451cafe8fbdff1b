#!/usr/bin/env bash
# Usage: release-check.sh VERSION
#
# Fails unless make nightly has passed on this commit, or the commit was released as that version before.
# NIGHTLY=skip passes. make release runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${NIGHTLY:-}" != skip ] || exit 0
commit=$(git describe --always --abbrev=40 --exclude='*' --dirty)
[[ $commit == *-dirty ]] || [ "$(git describe --tags --exact-match --match "$1" 2>/dev/null)" != "$1" ] || exit 0
! go run ./hack/nightly --status >&2 || exit 0
echo "release: not every step of make nightly has passed on this commit ($commit): run make nightly CONTINUE=1, or set NIGHTLY=skip to go on without it" >&2
exit 1
