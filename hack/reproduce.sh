#!/usr/bin/env bash
# Builds the images of the working tree a second time: from a copy in another folder, with an empty
# build cache. It fails if they differ from those in DIST (dist/). make reproduce runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${DIST:-dist}")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory "$copy"
GOCACHE="$copy/.cache" make -C "$copy" images VERSION="$VERSION" REVISION="$REVISION" COMMITTED="$COMMITTED" BIN=bin DIST=dist
status=0
for file in "$dist"/mediastack-{operator,runtime}-*; do
	cmp "$file" "$copy/dist/$(basename "$file")" || status=1
done
[ $status = 0 ] && echo "reproduce: the images in $dist are the same"
exit $status
