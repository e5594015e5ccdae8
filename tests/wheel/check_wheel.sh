#!/usr/bin/env bash
# Installs the wheel of dist/ where nothing else is, and uses it there: a root of Debian 12's Python and coreutils, without a
# compiler, a library of ours or a network. The root is made anew each time, of packages that apt and pip fetch once.
# usage: check_wheel.sh [WHEEL]
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "check_wheel: $1" >&2; exit 1; }

wheel=${1:-$(ls -t dist/fettle-*.whl 2>/dev/null | head -n 1 || true)}
[ -e "$wheel" ] || fail "there is no wheel in dist/; run make wheel first"
model=build/models/mobilenet_v2.onnx
[ -e "$model" ] || fail "there is no $model; run make fetch first"
[ "$(id -u)" -eq 0 ] || fail "only root may make a root for the check"

work=$PWD/build/check-wheel
root=$work/root
mkdir -p "$work/debs" "$work/wheels"

# --- The root ----------------------------------------------------------------------------------------------------

# libstdc++6 and libgcc-s1 are here for numpy, which says that it needs them; every Debian has them, for apt.
packages="libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libbz2-1.0 liblzma5
  libpython3.11-minimal libpython3.11-stdlib python3.11-minimal python3.11
  coreutils libacl1 libattr1 libselinux1 libpcre2-8-0 libgmp10 dash"
for package in $packages; do
  ls "$work/debs/$package"_*.deb >/dev/null 2>&1 || (cd "$work/debs" && apt-get -q download "$package" >download.log 2>&1) ||
    fail "apt-get cannot fetch $package ($work/debs/download.log)"
done
ls "$work"/wheels/pip-*.whl "$work"/wheels/ml_dtypes-*.whl >/dev/null 2>&1 ||
  build/python/bin/python -m pip download -q --disable-pip-version-check --only-binary :all: -d "$work/wheels" \
    pip 'numpy>=2' ml_dtypes || fail "pip cannot fetch what the wheel depends on"
rm -rf "$root"
mkdir -p "$root"/{usr/bin,usr/sbin,usr/lib,usr/lib64,proc,sys,dev,tmp,wheels,work/untuned,root}
for folder in bin sbin lib lib64; do ln -s usr/$folder "$root/$folder"; done
for package in $packages; do
  dpkg-deb --fsys-tarfile "$work/debs/$package"_*.deb | tar -x --keep-directory-symlink -C "$root"
done
ln -sf dash "$root/bin/sh"
cp "$work"/wheels/*.whl "$wheel" "$root/wheels"
cp "$model" "$root/work/model.onnx"
cp tests/wheel/use_wheel.py "$root/work"

# Runs a command in the root: no network, no process or file system of the machine, but for what the kernel says of it.
inside() {
  unshare --mount --net --pid --ipc --fork bash -c '
    mount --make-rprivate /
    mount -t proc proc "$0/proc"
    mount --rbind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    exec chroot "$0" /usr/bin/env -i PATH=/env/bin:/usr/bin HOME=/root LANG=C.UTF-8 "$@"' "$root" "$@"
}

# --- Install, and use --------------------------------------------------------------------------------------------

echo "root: $(du -sm "$root/usr" | cut -f1) MB of Debian 12, and $(basename "$wheel") ($(($(stat -c %s "$wheel") / 1000000)) MB)"
inside /usr/bin/python3.11 -m venv --without-pip /env
pip=$(basename "$work"/wheels/pip-*.whl)
start=$(date +%s.%N)
inside python "/wheels/$pip/pip" install -q --no-index --find-links /wheels "/wheels/$(basename "$wheel")" 2>&1 | grep -v WARNING || true
echo "installed in $(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $start}") s: $(du -sm "$root"/env/lib/python3.11/site-packages/fettle* |
  awk '{s += $1} END {print s}') MB"
inside fettle --version
inside fettle doctor | tail -n 1
inside fettle compile /work/model.onnx -o /work/untuned/model.so
inside fettle tune /work/model.onnx --time 10s --db /work/records.db 2>&1 | tail -n 3
inside fettle compile /work/model.onnx -o /work/model.so --db /work/records.db
inside python /work/use_wheel.py /work/model.onnx /work/model.so

# --- A C program over the artefact, which needs neither Fettle nor Python -------------------------------------------
# The root has no compiler: this machine's links it there.

cc -I "$root/work" examples/c/run_model.c "$root/work/model.so" -Wl,-rpath,'$ORIGIN' -o "$root/work/run_model"
inside /bin/sh -c '/work/run_model /work/x.raw > /work/y_c.raw'
cmp "$root/work/y.raw" "$root/work/y_c.raw" || fail "the C program computes something else than Python"
echo "a C program over the artefact computes the same, bit by bit"
