#!/usr/bin/env bash
# Runs every fuzz target of the repository, one after the other, each for FUZZTIME; FUZZ narrows them
# to the names that it matches. What fails is written down in the package's testdata/fuzz, from where
# `go test` runs it again: repair it, and keep the input as a seed (f.Add) rather than as a file.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-30s}
only=${FUZZ:-.}
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# found_nothing reports whether a target that failed only did so because its time had passed, without an input that fails:
# a fault of go test before Go 1.27 (go.dev/issue/75804).
found_nothing() {
	grep -qx '    context deadline exceeded' "$output" && ! grep -q 'Failing input written to' "$output"
}

# Untracked tests count too: a target is run before it is committed.
targets=$({ git grep --untracked -E --only-matching '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' || true; } | sed 's/:func / /' | sort)
failed=() ran=0
while read -r file name; do
	[[ $name =~ $only ]] || continue
	package=./$(dirname "$file")
	# Most packages are tested without cgo, and those that link libvips have it alone.
	cgo=0
	if ! CGO_ENABLED=0 go list "$package" >/dev/null 2>&1; then
		cgo=1
		CGO_ENABLED=1 go list "$package" >/dev/null || { failed+=("$package $name"); continue; }
	fi
	echo "fuzz: $name in $package for $time"
	ran=$((ran + 1))
	if ! CGO_ENABLED=$cgo go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package" 2>&1 | tee "$output"; then
		if found_nothing; then
			echo "fuzz: $name has found nothing until its time had passed"
		else
			failed+=("$package $name")
		fi
	fi
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
