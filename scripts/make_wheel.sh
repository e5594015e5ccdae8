#!/usr/bin/env bash
# Writes dist/fettle-VERSION-….whl, which holds all that it needs but libc, libstdc++ and numpy; with --sdist, the source
# distribution dist/fettle-VERSION.tar.gz.
set -euo pipefail
cd "$(dirname "$0")/.."
env=$PWD/build/python-wheel
mkdir -p dist build-wheel
if [ "${1:-}" = --sdist ]; then
  "$env/bin/python" -c "import scikit_build_core.build as backend; print('dist/' + backend.build_sdist('dist'))"
  exit
fi
exec 9>build-wheel/.lock
flock 9  # two builds in one folder would install into each other's wheel
made=build-wheel/as-built
rm -rf "$made"
# The compilers by the names that CMake calls them where it chooses: the compiler's cache serves both builds.
export CC=${CC:-/usr/bin/cc} CXX=${CXX:-/usr/bin/c++} PATH=$env/bin:$PATH
log=build-wheel/build.log
"$env/bin/python" -m pip wheel -v --disable-pip-version-check --no-build-isolation --no-deps -w "$made" . >"$log" 2>&1 || {
  echo "make_wheel: the build failed ($log):" >&2
  { grep -A 12 -m 3 -E 'FAILED|CMake Error|error:' "$log" || tail -n 20 "$log"; } >&2
  exit 1
}
"$env/bin/python" -m zipfile -l "$(ls "$made"/*.whl)" | grep -q '/scripts/fettle ' || {
  echo "make_wheel: the wheel has no command ($log)" >&2
  exit 1
}
# Shared libraries of Debian's that the wheel's need come into it, under names of their own.
"$env/bin/python" -m auditwheel repair --plat manylinux_2_36_x86_64 -w dist "$made"/*.whl >>"$log" 2>&1 || {
  tail -n 5 "$log" >&2
  exit 1
}
ls -l dist/*.whl | awk '{printf "%s: %.1f MB\n", $NF, $5 / 1e6}'
