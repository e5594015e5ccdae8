#!/usr/bin/env bash
# gpu_bundle.sh [OUT]: packs the programs that a GPU is measured with, and the libraries that they need, for a machine with a GPU
# and none of Debian's packages. Writes OUT/bundle.tar.xz (less than 45 MB) and OUT/run.sh; OUT is build/gpu where it is not given.
#   there: sh run.sh [RESULTS [PART…]]     PART: bench models convs fuzz peers
# The machine needs CUDA's driver, NVRTC, and Python with PyTorch, ONNX and numpy. A part that hangs is ended after two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu}
programs=(fettle fettle-worker bench-cuda fuzz)
# What libLLVM is linked with and Fettle has no use for: their functions are never called.
replaced=(libz3.so.4 libxml2.so.2)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$out" "$made/bin" "$made/lib" "$made/scripts"
for program in "${programs[@]}"; do
  [ -x "build/bin/$program" ] || { echo "gpu_bundle: build/bin/$program is missing; run: cmake --build build --target ${program//-/_}" >&2; exit 1; }
  cp "build/bin/$program" "$made/bin/"
done
needed() { LD_LIBRARY_PATH=$made/lib ldd "$made"/bin/* | awk '/=> \//{print $1, $3}' | sort -u; }

# stand_in NAME PATH USER…: a library NAME without functions. It has the versions that the users ask for, and the data, which
# the loader looks up at once; functions it looks up when they are called.
stand_in() {
  local name=$1 path=$2 source=$made/stand_in.c script=$made/stand_in.map
  shift 2
  nm -D -S --defined-only "$path" | awk '$3 ~ /^[BDRV]$/ {print $4, $2}' | sort >"$made/data"
  readelf -rW "$@" 2>/dev/null | awk '/R_X86_64_(GLOB_DAT|COPY|64) / && $5 {print $5}' | sed 's/@.*//' | sort -u >"$made/wanted"
  : >"$source" && : >"$script" && : >"$made/exported"
  while read -r symbol size; do
    grep -qx "${symbol%%@*}" "$made/wanted" || continue
    echo "char ${symbol%%@*}[0x$size];" >>"$source"
    echo "$symbol" >>"$made/exported"
  done <"$made/data"
  objdump -p "$@" | awk -v name="$name:" '/required from/ {own = $3 == name; next} own && NF == 4 {print $4}' | sort -u |
    while read -r version; do
      awk -F'@+' -v v="$version" '
        BEGIN {printf "%s {", v} $2 == v {printf "%s%s;", n++ ? " " : " global: ", $1} END {print " };"}' "$made/exported" >>"$script"
    done
  gcc -shared -fPIC -o "$made/lib/$name" -Wl,-soname,"$name" "$source" $([ -s "$script" ] && echo "-Wl,--version-script=$script")
}
users=("$made"/bin/*)
while read -r name path; do
  case " ${replaced[*]} " in *" $name "*) ;; *) users+=("$path") ;; esac
done < <(needed)
while read -r name path; do
  case " ${replaced[*]} " in *" $name "*) stand_in "$name" "$path" "${users[@]}" ;; esac
done < <(needed)
rm -f "$made"/{data,wanted,exported} "$made"/stand_in.*

# What these needed is needed no more. Those of the C library come from the machine.
needed | while read -r name path; do
  case $name in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libresolv.so* | ld-linux*) ;;
    *) [ -e "$made/lib/$name" ] || cp -L "$path" "$made/lib/$name" ;;
  esac
done
strip --strip-unneeded "$made"/bin/* "$made"/lib/*
LD_LIBRARY_PATH=$made/lib "$made/bin/fettle" --version >/dev/null # the loader finds all that it looks up at once
cp -r scripts/models "$made/scripts/"
rm -rf "$made/scripts/models/__pycache__"
cp benchmarks/model_structs.py benchmarks/gpu_models.py benchmarks/gpu_convs.py benchmarks/peers/gpu_peers.py "$made/"
tar -C "$made" --sort=name -cf - bin lib scripts model_structs.py gpu_models.py gpu_convs.py gpu_peers.py |
  xz --x86 --lzma2=preset=6,dict=64MiB >"$out/bundle.tar.xz"
cp scripts/gpu_run.sh "$out/run.sh"
du -h "$out/bundle.tar.xz"
