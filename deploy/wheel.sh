#!/usr/bin/env bash
# Build what is handed out, in dist/: the archive of the sources, and a wheel that runs where glibc is 2.28 or newer (Debian 10, RHEL 8,
# Ubuntu 20.04).
#
#   make wheel        or, where .venv is: deploy/wheel.sh
#
# A plain `pip wheel .` needs a glibc as new as the system's. Here the system's GCC compiles with the headers of the older glibc, and zig links
# against it: the package `ziglang` holds the headers and the symbols of each version. (clang, which zig compiles with, makes convolutions and
# products in bfloat16 three times as slow as GCC does.) zlib and protobuf-c are the system's archives, which lie inside of the wheel's
# libraries. MPI and OpenBLAS are not in the wheel: they come as packages of their own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
glibc=2.28
platform=manylinux_2_28_x86_64
work=$PWD/build/wheel
tools=$PWD/build/wheel-venv                     # an environment of its own: .venv is for building and testing
python=$tools/bin/python

die() { printf 'wheel: %s\n' "$*" >&2; exit 1; }

[ "$(uname -m)" = x86_64 ] || die "this is $(uname -m); wheels are built on x86-64"
[ -x "$python" ] || .venv/bin/python -m venv "$tools"
"$python" -m pip install --requirement=requirements/wheel.txt --quiet --disable-pip-version-check
zig=$("$python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
version=$("$zig" version)
rm -rf "$work"
mkdir -p "$work/bin" "$work/include" "$work/plain" dist

# The C compiler that CMake calls. The version stands in it, so that a compiler cache sees when it changes.
libc=${zig%/zig}/lib/libc/include
{
    printf '#!/bin/sh\n# zig %s\nfor word; do\n    case $word in\n        -c|-E|-S) exec gcc -nostdinc -D__GLIBC_MINOR__=%s' "$version" "${glibc#2.}"
    printf ' -isystem "%s"' "$(gcc -print-file-name=include)" "$libc"/{x86-linux-gnu,generic-glibc,x86-linux-any,any-linux-any}
    printf ' "$@" ;;\n    esac\ndone\nexec "%s" cc -target x86_64-linux-gnu.%s "$@" "%s"\n' "$zig" "$glibc" "$(gcc -print-libgcc-file-name)"
} >"$work/bin/cc"
chmod +x "$work/bin/cc"

# Of the system's headers the compiler sees only those of the two libraries: the others are of another glibc. $1: what to look for, $@: where.
first() { local name=$1 folder; shift; for folder; do [ -e "$folder/$name" ] && echo "$folder/$name" && return; done; die "there is no $name in $*"; }
headers=(${CMAKE_PREFIX_PATH:+"$CMAKE_PREFIX_PATH/include"} /usr/local/include /usr/include)
libraries=(${CMAKE_PREFIX_PATH:+"$CMAKE_PREFIX_PATH/lib"} /usr/local/lib /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib)
zlib=$(first zlib.h "${headers[@]}")
ln -s "$zlib" "$(first zconf.h "${zlib%/*}" /usr/include/x86_64-linux-gnu)" "$(first protobuf-c "${headers[@]}")" "$work/include"

export PATH=$tools/bin:$PATH CC=$work/bin/cc CCACHE_COMPILERCHECK=content
"$python" -m pip wheel --no-deps --no-build-isolation --wheel-dir "$work/plain" . \
    -Cbuild-dir="$work/build" \
    -Ccmake.define.TR_ZLIB_INCLUDE_DIR="$work/include" -Ccmake.define.TR_ZLIB_LIBRARY="$(first libz.a "${libraries[@]}")" \
    -Ccmake.define.TR_PROTOBUF_C_INCLUDE_DIR="$work/include" \
    -Ccmake.define.TR_PROTOBUF_C_LIBRARY="$(first libprotobuf-c.a "${libraries[@]}")"

# Libraries that use newer symbols are refused here. libtrireme.so is not copied: it lies in the wheel, where the programs find it once they are
# installed.
rm -f dist/*"$platform".whl
"$python" -m auditwheel repair --plat "$platform" --only-plat --exclude libtrireme.so --wheel-dir dist "$work"/plain/*.whl

rm -f dist/*.tar.gz
"$python" -c 'import scikit_build_core.build as build; build.build_sdist("dist")'

# What an index and later versions of Python would find wrong. Warnings are errors.
"$python" -m abi3audit --strict dist/*"$platform".whl
"$python" -m twine check --strict dist/*
