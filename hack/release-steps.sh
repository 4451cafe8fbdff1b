#!/usr/bin/env bash
# The steps of release.sh, which sets VERSION, WORK, OUT, REGISTRY, PLATFORMS and ARCHITECTURES, and removes WORK at the end.
set -euo pipefail
mkdir -p "$OUT" "$TMPDIR"
host=$(go env GOHOSTARCH)
# What the caller has set must not change what is built, as in the Makefile.
export CGO_ENABLED=0 GOWORK=off GOOS= GOARCH= GOFLAGS="-buildvcs=false -trimpath"
link="-s -w -X main.version=$VERSION"
key=()
[ -z "${SIGNING_KEY:-}" ] || key=(--key "$SIGNING_KEY")
read -r -a arches <<<"$ARCHITECTURES"

# step NAME COMMAND...: runs a function or a command, and prints how long it took.
step() {
	local name=$1 begun=$SECONDS
	shift
	"$@"
	echo "release: $name took $((SECONDS - begun)) s"
}
joined() { local IFS=,; echo "$*"; }

tools() {
	go -C hack/images build -o "$WORK/bin/images" .
	go -C hack/release build -o "$WORK/bin/release" .
}

# image ARCH: the programs of an image, then the image.
image() {
	local arch=$1 root=/ sysroot
	local bin=$WORK/bin/$arch cgo=(CGO_ENABLED=1)
	GOARCH=$arch hack/go-build.sh "operator and runtime ($arch)" -ldflags "$link" -o "$bin/" ./controllers/cmd/mediastack-operator ./runtime/cmd/mediastack-runtime
	if [ "$arch" != "$host" ]; then
		sysroot=${SYSROOT:-${MEDIASTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mediastack}/sysroot}/$arch
		hack/sysroot.sh "$arch" "$sysroot"
		root=$sysroot
		cgo+=("GOARCH=$arch" "CC=aarch64-linux-gnu-gcc --sysroot=$sysroot" "PKG_CONFIG_SYSROOT_DIR=$sysroot" PKG_CONFIG_PATH=
			"PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig:$sysroot/usr/share/pkgconfig")
	fi
	env "${cgo[@]}" hack/go-build.sh "image worker ($arch)" -ldflags "$link" -o "$bin/" ./runtime/cmd/mediastack-imaging
	"$WORK/bin/images" build --bin "$bin" --root "$root" --arch "$arch" --out "$OUT" --version "$VERSION" --revision "$REVISION" --created "$COMMITTED"
}

index() {
	local command=("$WORK/bin/images" index --version "$VERSION" --arch "$(joined "${arches[@]}")" --registry "$REGISTRY" --out "$OUT" ${OTHER_PACKAGES:+--other-packages})
	"${command[@]}"
	((${#key[@]})) || return 0
	mkdir "$WORK/signatures"
	"$WORK/bin/release" sign "${key[@]}" --images "$OUT/images.txt" "$WORK/signatures"
	"${command[@]}" --signatures "$WORK/signatures" >/dev/null
}

plugin() {
	local platform os arch program
	for platform in $PLATFORMS; do
		os=${platform%/*} arch=${platform#*/} program=kubectl-mediastack
		[ "$os" != windows ] || program+=.exe
		GOOS=$os GOARCH=$arch hack/go-build.sh "kubectl plugin ($platform)" -ldflags "$link" -o "$WORK/plugin/$platform/$program" ./controllers/cmd/kubectl-mediastack
		"$WORK/bin/images" licenses --bin "$WORK/bin" "$WORK/plugin/$platform/$program" "$WORK/archive/$platform"
		tar --create --directory "$WORK/archive/$platform" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner . |
			gzip -n >"$OUT/kubectl-mediastack-$VERSION-$os-$arch.tar.gz"
	done
}

chart() {
	cp -r charts/mediastack "$WORK/chart"
	"$WORK/bin/release" chart --version "$VERSION" --images "$OUT/images.txt" "${key[@]}" "$WORK/chart"
	"$HELM" package "$WORK/chart" --destination "$OUT" >/dev/null
}

olm() {
	mkdir "$WORK/olm"
	"$WORK/bin/release" olm --version "$VERSION" --images "$OUT/images.txt" --install "$OUT/install.yaml" --arch "$(joined "${arches[@]}")" \
		--created "$(date --utc --date="@$COMMITTED" +%Y-%m-%dT%H:%M:%SZ)" "$WORK/olm"
	tar --create --directory "$WORK/olm" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w . | gzip -n >"$OUT/mediastack-olm-$VERSION.tar.gz"
}

step "the tools" tools
for arch in "${arches[@]}"; do step "the images for $arch" image "$arch"; done
step "the archives of all architectures" index
step "the kubectl plugin" plugin
step "the manifests" hack/release-manifests.sh "$VERSION" "$OUT"
step "the chart" chart
step "the bundle" olm
step "the clients" hack/release-clients.sh "$VERSION" "$OUT"
cp CHANGELOG.md LICENSE docs/examples/clusters/kind.yaml "$OUT"
step "provenance and checksums" "$WORK/bin/release" prove --version "$VERSION" --revision "$REVISION" --platforms "$(joined $PLATFORMS)" "${key[@]}" "$OUT"
