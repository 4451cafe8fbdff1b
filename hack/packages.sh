#!/usr/bin/env bash
# Usage: packages.sh libvips | running | packages | cluster-packages | arm64
#
# Installs the Debian packages that are missing, as root on Debian or Ubuntu; anywhere else it prints
# which are missing, and fails.
#
#   libvips   what the image worker is built and run with
#   running   what the dev stack, the benchmarks and the crash run need, too
#   packages  what the tests need, too
#   arm64     what images for arm64 are built with on another architecture, and run with in tests
#   cluster-packages  what `make cluster` builds and runs its programs with
set -euo pipefail
purpose=$1
# Debian has servers in folders that users other than root do not search.
case ":$PATH:" in *:/usr/bin:*) PATH=$PATH:/usr/sbin:/sbin ;; esac

# need PACKAGE TEST...: adds the package to the missing ones if the test fails.
need() { "${@:2}" >/dev/null 2>&1 || missing+=("$1"); }
program() { command -v "$1"; }
xkey() { compgen -G '/usr/lib/*/varnish/vmods/libvmod_xkey.so' || compgen -G '/usr/lib/varnish/vmods/libvmod_xkey.so'; }
postgres() { compgen -G '/usr/lib/postgresql/*/bin/postgres' || program postgres; }

look() {
	missing=()
	if [ "$purpose" = cluster-packages ]; then
		need postgresql postgres
		need gcc program gcc
		need libc6-dev test -e /usr/include/stdlib.h
		need pkg-config program pkg-config
		need libseccomp-dev pkg-config --exists libseccomp
		need iproute2 program ip
		need nftables program nft
		need iptables program iptables
		return
	fi
	if [ "$purpose" = arm64 ]; then
		need gcc-aarch64-linux-gnu program aarch64-linux-gnu-gcc
		need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdlib.h
		need qemu-user-static program qemu-aarch64-static
		return
	fi
	need gcc program gcc
	need libc6-dev test -e /usr/include/stdlib.h
	need pkg-config program pkg-config
	need libvips-dev pkg-config --exists 'vips >= 8.14'
	[ "$purpose" != libvips ] || return 0
	need postgresql postgres
	need curl program curl # for the lines that the dev stack prints
	need jq program jq # for the lines of the guides
	need libvips-tools program vips
	[ "$purpose" != running ] || return 0
	need libimage-exiftool-perl program exiftool
	need webp program webpinfo
	need nodejs program node
	need npm program npm
	need python3 program python3 # for a sample of a guide
	need chromium program chromium
	need iproute2 program ip
	need haproxy program haproxy
	need clamav-daemon program clamd
	need varnish program varnishd
	need varnish-modules xkey
}

explain() {
	echo "packages are missing: on Debian and Ubuntu, run \`apt-get install ${missing[*]}\` as root;" \
		"elsewhere, install what has those programs and libraries (libvips 8.14 or newer)" >&2
	exit 1
}

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold "$@" >/dev/null
}

look
((${#missing[@]})) || exit 0
if ((EUID != 0)) || ! program apt-get >/dev/null; then explain; fi
conf=/etc/postgresql-common/createcluster.conf
if [[ " ${missing[*]} " == *" postgresql "* && ! -e $conf ]]; then
	# The package would make and start a cluster of its own; the dev stack and the tests have theirs.
	mkdir -p "$(dirname "$conf")"
	printf '# Written by hack/packages.sh of mediastack, which runs PostgreSQL clusters of its own.\ncreate_main_cluster = false\n' >"$conf"
fi
policy=/usr/sbin/policy-rc.d
if [[ " ${missing[*]} " =~ " haproxy "|" varnish "|" clamav-daemon " && ! -e $policy ]]; then
	# The packages would start services, and one of them a download of signatures. The tests run the programs with configurations of their own.
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\n# Written by hack/packages.sh of mediastack, for as long as it installs packages.\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
echo "Debian packages: installing ${missing[*]}" >&2
apt update
apt install -y --no-install-recommends "${missing[@]}"
look
((${#missing[@]} == 0)) || explain
