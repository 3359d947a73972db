#!/bin/sh
# Makes a signed apt repository of packages of a few bytes: stand_ins.sh DIRECTORY ORIGIN < LIST
# A line of the list is a name, a version and, after them, what the package depends on.
set -eu
directory=$1
mkdir -p "$directory"
while read -r name version depends; do
    [ -n "$name" ] || continue
    tree=$(mktemp -d)
    mkdir "$tree/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: amd64\n' "$name" "$version"
        printf 'Maintainer: tests\nDescription: stand-in\n'
        [ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
    } > "$tree/DEBIAN/control"
    case $name in
    *-dkms)
        # There is no module: its package answers for modinfo and DKMS.
        mkdir -p "$tree/usr/local/sbin"
        upstream=${version%-*}
        printf '#!/bin/sh\necho %s\n' "${upstream#*:}" > "$tree/usr/local/sbin/modinfo"
        printf '#!/bin/sh\necho %s/%s, 6.1.0-0-stand-in, x86_64: installed\n' \
            "${name%-dkms}" "${upstream#*:}" > "$tree/usr/local/sbin/dkms"
        chmod 755 "$tree/usr/local/sbin/modinfo" "$tree/usr/local/sbin/dkms"
        ;;
    esac
    chmod 755 "$tree"
    dpkg-deb --build "$tree" "$directory" > /dev/null
    rm -r "$tree"
done
cd "$directory"
dpkg-scanpackages --multiversion . > Packages 2> /dev/null
rm -f InRelease
apt-ftparchive -o "APT::FTPArchive::Release::Origin=$2" release . > Release
[ -e "$HOME/.gnupg/trustdb.gpg" ] || gpg --batch --quiet --passphrase '' --quick-generate-key stand-ins ed25519
gpg --batch --clearsign --output InRelease Release
gpg --armor --export > key.asc
