#!/usr/bin/env bash
# Makes a base image for scripts/compose_test.sh where none can be pulled: Debian 12 with its Python, out of Debian's
# packages, with this machine's certificates and pip's configuration, so that builds reach what this machine reaches.
#
#   scripts/compose_base.sh NAME[:TAG]
#
# Needs root, debootstrap and a Docker engine. Takes about two minutes; 0.2 GB and pip's local wheels. For tests on this
# machine: do not publish the image.
set -euo pipefail
name=${1:?usage: scripts/compose_base.sh NAME[:TAG]}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root
debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,libpython3.11 bookworm "$root" \
    >"$folder/log" || { tail -20 "$folder/log" >&2; exit 1; }
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*

cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
changes=()
for file in /etc/pip.conf /etc/xdg/pip "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
    [[ -e $file ]] || continue
    # A container's user has another home: pip looks into /etc for everyone.
    to=$root/etc/pip.conf
    [[ $file == /etc/xdg/pip ]] && to=$root/etc/xdg/pip
    mkdir -p "$(dirname "$to")" && cp -r "$file" "$to"
done
for variable in "${!PIP_@}"; do
    changes+=(--change "ENV $variable=\"${!variable}\"")
done
for folder_of_wheels in ${PIP_FIND_LINKS:-}; do
    [[ -d $folder_of_wheels ]] && cp -r --parents "$folder_of_wheels" "$root"
done

tar -C "$root" -c . | docker import "${changes[@]}" - "$name" >/dev/null
echo "made $name"
