#!/usr/bin/env bash
# Usage: sysroot.sh ARCH FOLDER
#
# Writes what the image worker is built with, and run with, on another architecture: the packages of this release of Debian,
# unpacked into a folder without running anything of them, with a database of dpkg. A folder that is there already stays,
# unless Debian has newer packages and REFRESH=1 is set. Needs no root; make sysroot runs it.
set -euo pipefail
arch=$1 folder=$(realpath -m "$2")
packages=(libvips-dev ca-certificates libc6-dev base-files)

fail() { echo "sysroot: $*" >&2; exit 1; }
for program in apt-get dpkg-deb aarch64-linux-gnu-gcc; do
	command -v "$program" >/dev/null || fail "$program is missing: on Debian, run \`apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross\` as root"
done
[ "$arch" = arm64 ] || fail "there is no cross-compiler for $arch, only for arm64"
[ ! -e "$folder/complete" ] || [ -n "${REFRESH:-}" ] || exit 0

mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
[ ! -e "$folder/complete" ] || [ -n "${REFRESH:-}" ] || exit 0
new=$(mktemp -d "$folder.new-XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# An apt of its own: no architecture is added to that of the machine. It has the machine's sources, proxies and keys. It is asked
# for them, since files of configuration may have blocks of several lines. The indexes of other programs, as of apt-file, are left out.
. /etc/os-release
apt=$new/apt
mkdir -p "$apt"/{lists/partial,archives/partial,none}
: >"$apt/status"
{
	apt-config dump | grep -E '^Acquire::' | grep -v '^Acquire::IndexTargets' || true
	cat <<-END
		Dir::State::status "$apt/status";
		Dir::State::lists "$apt/lists";
		Dir::Cache "$apt";
		Dir::Cache::archives "$apt/archives";
		Dir::Etc::parts "$apt/none";
		APT::Architecture "$arch";
		APT::Architectures { "$arch"; };
		APT::Install-Recommends "false";
		APT::Sandbox::User "";
		Acquire::Languages "none";
	END
} >"$apt/apt.conf"
export APT_CONFIG=$apt/apt.conf DEBIAN_FRONTEND=noninteractive
echo "sysroot: downloading the packages of Debian $VERSION_ID for $arch, once" >&2
apt-get -qq -o Debug::NoLocking=true update || fail "the lists of packages for $arch could not be downloaded"
apt-get -qq -o Debug::NoLocking=true --download-only --yes install "${packages[@]}" >/dev/null || fail "the packages for $arch could not be downloaded"

root=$new/root
mkdir -p "$root"/usr/{bin,lib,sbin} "$root/var/lib/dpkg/info"
# As in Debian 12, where packages have files in both: tar keeps the links.
for merged in bin lib sbin; do ln -s "usr/$merged" "$root/$merged"; done
compgen -G "$apt/archives/*.deb" >/dev/null || fail "apt-get has downloaded no package into $apt/archives: look at \`apt-config dump\`"
for deb in "$apt"/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar --extract --keep-directory-symlink --no-same-owner --directory "$root"
	name=$(dpkg-deb --field "$deb" Package)
	dpkg-deb --field "$deb" | sed "/^Package: /a Status: install ok installed" >>"$root/var/lib/dpkg/status"
	echo >>"$root/var/lib/dpkg/status"
	dpkg-deb --fsys-tarfile "$deb" | tar --list | sed -e 's|^\.||' -e 's|/$||' -e '/^$/d' >"$root/var/lib/dpkg/info/$name.list"
done
# What update-alternatives does when the packages are configured: the libraries that programs ask for.
(
	cd "$root/usr/lib/aarch64-linux-gnu"
	for library in blas/libblas.so.3 lapack/liblapack.so.3; do
		[ ! -e "$library" ] || [ -e "${library##*/}" ] || ln -s "$library" "${library##*/}"
	done
)
touch "$root/complete"
rm -rf "$folder"
mv "$root" "$folder"
echo "sysroot: $folder has $(ls "$folder/var/lib/dpkg/info" | wc -l) packages" >&2
