#!/bin/sh
# make_packages.sh SITE PORT: an index of pip's, a repository of apt's and a registry of cargo's below SITE, which is
# served as http://web.test:PORT; each holds one package, "left" 1.2.3.
set -eu
site=${1:?usage: make_packages.sh SITE PORT} port=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mkdir -p "$site/simple/left" "$site/deb" "$site/crates" "$site/index/le/ft"
python3 - "$site/simple/left/left-1.2.3-py3-none-any.whl" <<'END'
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    info = "left-1.2.3.dist-info/"
    wheel.writestr("left.py", "print('installed')")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: left\nVersion: 1.2.3\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
END
echo '<a href="left-1.2.3-py3-none-any.whl">left</a>' >"$site/simple/left/index.html"

mkdir -p package/DEBIAN package/usr/share/left
cat >package/DEBIAN/control <<'END'
Package: left
Version: 1.2.3
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: a package
END
echo content >package/usr/share/left/file
dpkg-deb --root-owner-group --build package "$site/deb/left.deb" >/dev/null
{
  cat package/DEBIAN/control
  echo "Filename: ./left.deb"
  echo "Size: $(stat -c %s "$site/deb/left.deb")"
  echo "SHA256: $(sha256sum "$site/deb/left.deb" | cut -d' ' -f1)"
} >"$site/deb/Packages"

mkdir -p left-1.2.3/src
printf '[package]\nname = "left"\nversion = "1.2.3"\n' >left-1.2.3/Cargo.toml
echo 'pub fn left() {}' >left-1.2.3/src/lib.rs
tar -czf "$site/crates/left.crate" left-1.2.3
printf '{"name":"left","vers":"1.2.3","deps":[],"cksum":"%s","features":{},"yanked":false}\n' \
  "$(sha256sum "$site/crates/left.crate" | cut -d' ' -f1)" >"$site/index/le/ft/left"
printf '{"dl":"http://web.test:%s/crates/{crate}.crate"}' "$port" >"$site/index/config.json"
