#!/usr/bin/env bash
# Checks that what is generated, formatted and tidied is what is checked in, and that the linters
# pass. It compares the tree before and after, so uncommitted work alone is no failure; what the
# steps changed stays in the working tree, ready to be looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

# The working tree as git would commit it, untracked files included, without touching the index.
snapshot() {
	local index
	index=$(mktemp)
	cp "$(git rev-parse --git-path index)" "$index"
	GIT_INDEX_FILE=$index git add --all
	GIT_INDEX_FILE=$index git write-tree
	rm -f "$index"
}

step() {
	local started=$SECONDS
	echo "verify: $1"
	make "$1"
	echo "verify: $1 took $((SECONDS - started)) s"
}

before=$(snapshot)
step generate
step fmt
step tidy
after=$(snapshot)
if [ "$before" != "$after" ]; then
	git --no-pager diff --stat "$before" "$after"
	git --no-pager diff "$before" "$after" | head -n 400
	echo "verify: regenerating, formatting or tidying changed the files above: commit what it made" >&2
	exit 1
fi
step vocabulary
step lint
echo "verify: clean"
