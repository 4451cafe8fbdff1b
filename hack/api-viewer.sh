#!/usr/bin/env bash
# Vendors Swagger UI for the API reference (runtime/internal/apidocs): the pinned release, checked
# against its recorded checksum, with its licences. To upgrade, change version and integrity
# (`npm view swagger-ui-dist@VERSION dist.integrity`) and run `make api-viewer`.
set -euo pipefail
cd "$(dirname "$0")/.."
version=5.35.0
integrity=sha512-U06rpMtW9V3XPGOBeamTUSr0Z09jMX4IJuANpE/EZbAhw0G8CgwrzU4YmXkn/h0wCDNsXdGarTNNHC3sU8yVUQ==
target=runtime/internal/apidocs/swagger-ui

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack "swagger-ui-dist@$version" --pack-destination "$work" --silent > /dev/null
archive=$work/swagger-ui-dist-$version.tgz
found=sha512-$(openssl dgst -sha512 -binary "$archive" | base64 -w0)
if [ "$found" != "$integrity" ]; then
	echo "api-viewer: swagger-ui-dist $version has the checksum $found, not $integrity" >&2
	exit 1
fi
tar -xzf "$archive" -C "$work"

rm -rf "$target"
mkdir -p "$target"
cd "$work/package"
# The licences of the libraries that are compiled into the bundle have a file of their own.
for file in swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css LICENSE NOTICE; do
	install -m 644 "$file" "$OLDPWD/$target/$file"
done
cd "$OLDPWD/$target"
# Browsers would ask the service for the source maps, which are not vendored.
sed -i -e '/^\/\/# sourceMappingURL=/d' swagger-ui-bundle.js
sed -i -e 's|/\*# sourceMappingURL=[^*]*\*/||' swagger-ui.css
{
	echo "swagger-ui-dist $version, vendored by \`make api-viewer\` without its source map comments. Do not edit."
	echo "$integrity"
	sha256sum ./*
} > "$work/VENDORED"
mv "$work/VENDORED" .
