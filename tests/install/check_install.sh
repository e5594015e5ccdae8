#!/usr/bin/env bash
# Installs the build into a folder, moves that, and builds a program on it, once by CMake and once by pkg-config. All
# headers are compiled.
# usage: check_install.sh BUILD COMPILER CMAKE
set -euo pipefail
build=$1 compiler=$2 cmake=$3
user=$(cd "$(dirname "$0")/user" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$cmake" --install "$build" --component fettle --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/moved"  # whoever installs may make a package of it
prefix=$folder/moved
"$prefix/bin/fettle" --version

"$cmake" -S "$user" -B "$folder/user" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=Debug >"$folder/log" 2>&1 && "$cmake" --build "$folder/user" >>"$folder/log" 2>&1 ||
  { cat "$folder/log"; exit 1; }
"$folder/user/user"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
"$compiler" $(pkg-config --cflags fettle) "$user/main.cpp" $(pkg-config --libs fettle) -o "$folder/by_pkg_config"
"$folder/by_pkg_config"
# Every header finds what it includes.
headers=$(pkg-config --variable=includedir fettle)
(cd "$headers" && find . -name '*.h' | sed 's|^\./\(.*\)|#include "\1"|' | sort) >"$folder/headers.cpp"
"$compiler" $(pkg-config --cflags fettle) -fsyntax-only "$folder/headers.cpp"

test "$(pkg-config --modversion fettle)" = "$("$prefix/bin/fettle" --version | cut -d ' ' -f 2)"
