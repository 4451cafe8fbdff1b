#!/usr/bin/env bash
# Runs every fuzz target of the repository, one after the other, each for FUZZTIME; FUZZ narrows them
# to the names that it matches. What fails is written down in the package's testdata/fuzz, from where
# `go test` runs it again: repair it, and keep the input as a seed (f.Add) rather than as a file.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-30s}
only=${FUZZ:-.}

# Untracked tests count too: a target is run before it is committed.
targets=$(git grep --untracked -E --only-matching '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed 's/:func / /' | sort)
failed=() ran=0
while read -r file name; do
	[[ $name =~ $only ]] || continue
	package=./$(dirname "$file")
	if ! go list "$package" >/dev/null 2>&1; then
		echo "fuzz: $name in $package is not built here" >&2
		continue
	fi
	echo "fuzz: $name in $package for $time"
	ran=$((ran + 1))
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package" || failed+=("$package $name")
done <<<"$targets"
if ((${#failed[@]})); then
	printf 'fuzz: failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
if ((ran == 0)); then
	echo "fuzz: no target matches $only" >&2
	exit 1
fi
echo "fuzz: $ran targets, all passed"
