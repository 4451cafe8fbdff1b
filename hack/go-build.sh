#!/usr/bin/env bash
# Usage: go-build.sh NAME [-C DIR] [ARGUMENT]...
#
# Runs `go build` with the arguments. Every 20 s it prints how many modules are downloaded and how many
# packages are compiled. Those in the build cache are not compiled again, so a program may be ready
# before all of its packages are counted.
set -euo pipefail
name=$1
shift
dir=()
[ "${1:-}" != -C ] || { dir=(-C "$2") && shift 2; }

# go list knows the flags of go build, but not the name of the program.
list=() skip=
for argument; do
	if [ -n "$skip" ]; then skip=; elif [ "$argument" = -o ]; then skip=1; else list+=("$argument"); fi
done

# The compiler and the linker collect garbage less often than by default: that takes a fifth less processor time. The limit is for each of
# them, and holds on a machine with 8 GiB.
export GOGC=${GOGC:-400} GOMEMLIMIT=${GOMEMLIMIT:-2GiB}

log=$(mktemp)
build=
trap 'kill $build 2>/dev/null || true; rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
started=$SECONDS total=
go "${dir[@]}" build -v "$@" 2>"$log" &
build=$!
packages() { grep -c -x -E '[A-Za-z0-9][^ :]*' "$log" || true; }
until timeout 20 tail --pid=$build --follow /dev/null; do
	downloaded=$(grep -c '^go: downloading ' "$log" || true) compiled=$(packages)
	# Only a build that takes long is worth it, and only after its modules are there.
	if [ -z "$total" ] && [ "$compiled" -gt 0 ]; then
		total=$(go "${dir[@]}" list -deps "${list[@]}" 2>/dev/null | wc -l)
	fi
	message=
	[ "$downloaded" = 0 ] || message="$downloaded modules downloaded, "
	message+="$compiled${total:+ of at most $total} packages compiled"
	! pgrep --parent $build --exact link >/dev/null 2>&1 || message+=", linking"
	echo "$name: $message after $((SECONDS - started)) s" >&2
done
status=0
wait $build || status=$?
build=
if [ $status -ne 0 ]; then
	grep -v -x -E '[A-Za-z0-9][^ :]*' "$log" | grep -v '^go: downloading ' >&2 || true
fi
exit $status
