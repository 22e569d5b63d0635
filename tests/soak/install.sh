#!/usr/bin/env bash
# README's installation, typed literally on a fresh Debian 12 by an ordinary user; then README's first example, alone and in a job.
#
#   tests/soak/install.sh FOLDER      as root; FOLDER gets the file system (1.5 GB). Takes the network, and half an hour of two free cores at most.
#
# What this machine says to pip about indexes and certificates holds in there, too: it is no part of what is tested.
set -euo pipefail
root=$(realpath -m "$1")
tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
[ "$(id -u)" = 0 ] || { echo "install.sh: a root file system of Debian is made by root" >&2; exit 1; }

packages=$(grep -o 'apt-get install [^`)]*' "$tree/README.md" | head -n 1)
# The one block of code below "## Installation", and the script circle.py.
block=$(awk '/^## / { here = /^## Installation/ } here && /^```/ { inside = !inside; next } here && inside' "$tree/README.md")
circle=$(awk '/^<!-- example: circle.py/ { here = 1 } here && /^```/ { if (inside) exit; inside = 1; next } here && inside' "$tree/README.md")
echo "install.sh: $packages"
echo "$block"

[ -e "$root/etc/debian_version" ] || mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$root"
binds=()
for folder in $(pip config list 2>/dev/null | grep -o "/[^' ]*" | sed -E 's#^/+#/#' | sort -u); do         # local indexes
    [ ! -d "$folder" ] || binds+=("${folder%/simple}")
done
certificates=$(python3 -c 'import ssl; print(ssl.get_default_verify_paths().cafile or "")')
[ ! "$certificates" ] || cp "$certificates" "$root/opt/certificates.crt"
{ echo '[global]'; [ ! "$certificates" ] || echo 'cert = /opt/certificates.crt'; pip config list 2>/dev/null | sed -nE "s/^global\.(find-links|extra-index-url|index-url)='(.*)'/\1 = \2/p"; } >"$root/etc/pip.conf"
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" id student >/dev/null 2>&1 || chroot "$root" useradd --create-home --shell /bin/bash student
rm -rf "$root/home/student/clone" "$root/home/student/trireme"
mkdir -p "$root/home/student/clone"
git -C "$tree" ls-files -z | (cd "$tree" && tar --null --files-from=- -cf -) | tar -xf - -C "$root/home/student/clone"
printf '%s\n' "$circle" >"$root/home/student/circle.py"
printf 'set -e\ncd ~/clone\n%s\ncd ~\npython circle.py\ntrireme launch --servers 2 --trainers 4 circle.py\nls ~/trireme/share/man/man1/trireme-launch.1\n' "$block" >"$root/home/student/typed.sh"
chroot "$root" chown -R student: /home/student

export root binds_list="${binds[*]:-}" packages
unshare --mount --pid --fork bash -ec '
    mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount -t tmpfs tmpfs "$root/tmp"
    for folder in $binds_list; do mkdir -p "$root$folder"; mount --bind "$folder" "$root$folder"; done
    chroot "$root" apt-get update -qq
    chroot "$root" env DEBIAN_FRONTEND=noninteractive $packages --yes -qq --no-install-recommends >/dev/null
    chroot "$root" su - student -c "bash typed.sh"'
echo "install.sh: all of it works"
