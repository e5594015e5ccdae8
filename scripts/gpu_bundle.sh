#!/usr/bin/env bash
# gpu_bundle.sh [OUT]: packs the programs that a GPU is measured with, and the libraries that they need, for a machine with a GPU
# and none of Debian's packages. Writes OUT/bundle.tar.xz (about 45 MB) and OUT/run.sh; OUT is build/gpu where it is not given.
#   there: sh run.sh [RESULTS [PART…]]     PART: bench models fuzz peers
# The machine needs CUDA's driver, NVRTC, and Python with PyTorch, ONNX and numpy. A part that hangs is ended after two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu}
programs=(fettle fettle-worker bench-cuda fuzz)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$out" "$made/bin" "$made/lib" "$made/scripts"
for program in "${programs[@]}"; do
  [ -x "build/bin/$program" ] || { echo "gpu_bundle: build/bin/$program is missing; run: cmake --build build --target ${program//-/_}" >&2; exit 1; }
  cp "build/bin/$program" "$made/bin/"
done
# Those of the C library come from the machine.
ldd "$made"/bin/* | awk '/=> \//{print $3}' | sort -u | while read -r library; do
  case $(basename "$library") in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libresolv.so* | ld-linux*) ;;
    *) cp -L "$library" "$made/lib/" ;;
  esac
done
strip --strip-unneeded "$made"/bin/* "$made"/lib/*
cp -r scripts/models "$made/scripts/"
cp benchmarks/gpu_models.py benchmarks/peers/gpu_peers.py "$made/"
tar -C "$made" -cf - bin lib scripts gpu_models.py gpu_peers.py | xz -T0 -6 >"$out/bundle.tar.xz"
cp scripts/gpu_run.sh "$out/run.sh"
du -h "$out/bundle.tar.xz"
