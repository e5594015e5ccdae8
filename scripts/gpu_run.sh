#!/bin/sh
# run.sh [RESULTS [PART…]]: measures a GPU with the programs of bundle.tar.xz beside it (scripts/gpu_bundle.sh).
# PART: bench (make bench-cuda), models (whole models, untuned, beside the CPU's outputs), fuzz (2,000 random traces), peers
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-$here/results}
[ $# -gt 0 ] && shift
mkdir -p "$results" && results=$(cd "$results" && pwd)
work=$(mktemp -d)
cd "$work" || exit 1
python3 -c "import tarfile, sys; tarfile.open(sys.argv[1]).extractall('.')" "$here/bundle.tar.xz" || exit 1
# The libraries are for these programs alone: Python has its own.
fettle() { LD_LIBRARY_PATH=$work/lib timeout -k 5 120 "$work/bin/$@"; }
for library in /usr/local/cuda*/targets/x86_64-linux/lib/libnvrtc.so /usr/local/cuda/lib64/libnvrtc.so; do
  [ -e "$library" ] && : "${FETTLE_NVRTC:=$library}" && export FETTLE_NVRTC
done
export FETTLE_CACHE=$work/cache PYTHONUNBUFFERED=1

# Makes NAME.onnx, its code for the CPU and the GPU, and the CPU's outputs of random inputs.
make_model() {
  python3 - "$1" <<'PY'
import importlib, sys
sys.path.insert(0, "scripts")
name = sys.argv[1]
proto = importlib.import_module("models." + name.removesuffix("_f16")).make()
if name.endswith("_f16"):
    proto = importlib.import_module("models.half").to_half(proto)
open(name + ".onnx", "wb").write(proto.SerializeToString(deterministic=True))
PY
  fettle fettle compile "$1.onnx" -o "$1.cpu.so" --untuned >"$results/$1.cpu.txt" 2>&1
  begin=$(date +%s)
  fettle fettle compile "$1.onnx" -o "$1.so" --untuned --target "cuda -arch sm_90a" >"$results/$1.cuda.txt" 2>&1
  echo "$1: compiled in $(($(date +%s) - begin)) s: $(tail -n 1 "$results/$1.cuda.txt")"
}

run_bench() { fettle bench-cuda; }
run_fuzz() { fettle fuzz --seed "$(date +%j)" --traces 2000 --backend cuda; }
run_peers() { timeout 120 python3 gpu_peers.py --out "$results/peers.json"; }
run_models() {
  names=${MODELS:-mobilenet_v2 resnet50 bert_base vit_b16 mobilenet_v2_f16 resnet50_f16 bert_base_f16 vit_b16_f16}
  for name in $names; do make_model "$name" & done
  wait
  for name in $names; do
    tolerance=1e-3
    case $name in *_f16) tolerance=3e-2 ;; esac
    timeout 60 python3 gpu_models.py "$name.cpu.so" --save "$name.npz" --seconds 0.1 >/dev/null
    timeout 60 python3 gpu_models.py "$name.so" --reference "$name.npz" --tolerance $tolerance --seconds 0.5 --profile 10 --json "$results/$name.json"
  done
}

for part in ${*:-bench models fuzz}; do
  echo "== $part"
  "run_$part" 2>&1 | tee "$results/$part.txt"
done
cp build/bench/*.json "$results/" 2>/dev/null
