#!/usr/bin/env bash
# Usage: nightly.sh [STEP...]
#
# Runs everything that is too long for each change: all tests, also with the race detector, images, a real
# cluster, crashes, full sizes, and fuzzing. A step that fails does not end the others. When all steps have
# passed, mediastack-nightly in the git directory, where make clean removes nothing, names the commit: make release
# asks for it. make nightly runs it, for hours.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
record=$(git rev-parse --git-path mediastack-nightly) logs=.mediastack/nightly-logs
all=(test test-race test-images reproduce e2e zero-loss crash test-operator test-bodies test-requests test-erasure test-migrations test-stores pages fuzz)
steps=("${@:-${all[@]}}")

run() {
	case $1 in
	# The pictures of the documentation stay as they are.
	pages) BROWSER_PICTURES=$(mktemp -d) go test -count=1 -timeout 30m ./hack/test/browser ;;
	*) make "$1" ;;
	esac
}

for step in "${steps[@]}"; do
	[[ " ${all[*]} " == *" $step "* ]] || { echo "nightly: there is no step $step; there are ${all[*]}" >&2; exit 2; }
done
commit() { git describe --always --abbrev=40 --exclude='*' --dirty; }
before=$(commit)
mkdir -p "$logs"
rm -f "$record"
failed=()
for step in "${steps[@]}"; do
	begun=$SECONDS
	echo "nightly: $step begins; $logs/$step.log has its output"
	if run "$step" >"$logs/$step.log" 2>&1; then
		echo "nightly: $step passed in $((SECONDS - begun)) s"
	else
		failed+=("$step")
		echo "nightly: $step FAILED after $((SECONDS - begun)) s:"
		tail -n 20 "$logs/$step.log" | sed 's/^/    /'
	fi
done
if ((${#failed[@]})); then
	echo "nightly: ${#failed[@]} of ${#steps[@]} steps failed: ${failed[*]}" >&2
	exit 1
fi
echo "nightly: ${#steps[@]} steps passed in $((SECONDS / 60)) min"
if [ ${#steps[@]} -ne ${#all[@]} ] || [ "$(commit)" != "$before" ] || [[ $before == *-dirty ]]; then
	echo "nightly: nothing is recorded for make release: that takes all steps, of one commit without changes"
else
	echo "$before" >"$record"
fi
