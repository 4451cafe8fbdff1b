#!/usr/bin/env bash
# Usage: build-pinned.sh PROGRAM MODULE PACKAGE [LDFLAGS [TAGS [cgo]]]
#
# Builds a main package into a file of the cache, unless the file was built from the go.mod, go.sum and
# Go files that MODULE, a directory with a go.mod, has now. Builds of the same program wait for each
# other, and a finished program replaces the old one at once. TAGS are build tags; `cgo` links C code.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 module=$2 package=$3 flags="-s -w${4:+ $4}" tags=${5:-} cgo=${6:-}
name=$(basename "$program") dir=$(dirname "$program")

# What the caller has set must not change what a pinned build makes.
export CGO_ENABLED=$([ "$cgo" = cgo ] && echo 1 || echo 0) GOWORK=off GOFLAGS= GOOS= GOARCH=

shopt -s nullglob
stamp=$({ echo "$package $flags ${tags:+$tags }$(go env GOVERSION GOARCH | xargs)"; cat "$module"/{go.mod,go.sum} "$module"/{,*/}*.go; } | sha256sum)
stamp=${stamp%% *}
stamp_file=$dir/.$name.stamp
built() { [ -x "$program" ] && [ "$(cat "$stamp_file" 2>/dev/null)" = "$stamp" ]; }

built && exit
mkdir -p "$dir"
exec 9>"$dir/.$name.lock"
flock --nonblock 9 || { echo "$name: another build of it is under way; waiting for it" >&2; flock 9; }
built && exit

echo "$name: building it, once, into $dir" >&2
started=$SECONDS fresh=$program.new-$$
trap 'rm -f "$fresh"; kill $build 2>/dev/null || true' EXIT
# At a low priority, so that the machine stays usable. A caller that has one already keeps it: twice as low, a build
# on a busy machine hardly goes on.
lower=()
[ "$(nice)" -gt 0 ] || lower=(nice)
"${lower[@]}" hack/go-build.sh "$name" -C "$module" -trimpath -buildvcs=false -tags "$tags" -ldflags "$flags" -o "$fresh" "$package" 9>&- &
build=$!
wait $build
# The stamp goes first and comes last: a crash between the two steps only causes a rebuild.
rm -f "$stamp_file"
mv "$fresh" "$program"
printf %s "$stamp" >"$stamp_file"
echo "$name: built in $((SECONDS - started)) s" >&2
