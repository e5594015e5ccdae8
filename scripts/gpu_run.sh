#!/bin/sh
# run.sh [RESULTS [PART…]]: measures a GPU with the programs of bundle.tar.xz beside it (scripts/gpu_bundle.sh).
# PART: bench (make bench-cuda), models (whole models, untuned, beside the CPU's outputs), convs (3x3 convolutions beside cuDNN's),
# fuzz (random traces), peers (what others reach)
# Environment: MODELS: names of models; ONLY: a part of the names of what bench times; TRACES, SEED: of fuzz; LIMIT: seconds after
# which a program is ended. RESULTS has a file a part, and a JSON file a model.
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-$here/results}
[ $# -gt 0 ] && shift
parts=${*:-models bench fuzz}
mkdir -p "$results" && results=$(cd "$results" && pwd)
work=$(mktemp -d)
cd "$work" || exit 1
began=$(date +%s)
since() { echo "== [$(($(date +%s) - began)) s] $*"; }
python3 -c "import tarfile, sys; tarfile.open(sys.argv[1]).extractall('.')" "$here/bundle.tar.xz" || exit 1
find_library() { ls /usr/local/cuda*/targets/x86_64-linux/lib/"$1"* /usr/local/cuda*/lib64/"$1"* 2>/dev/null | head -n 1; }
: "${FETTLE_NVRTC:=$(find_library libnvrtc.so)}"
: "${LIMIT:=120}"
export FETTLE_NVRTC FETTLE_CACHE="$work/cache" PYTHONUNBUFFERED=1
# The libraries are for these programs alone: Python has its own. cuBLAS is the machine's.
libraries=$work/lib
cublas=$(find_library libcublas.so)
[ -n "$cublas" ] && libraries=$libraries:$(dirname "$cublas")
fettle() { LD_LIBRARY_PATH=$libraries timeout -k 5 "$LIMIT" "$work/bin/$@"; }
since unpacked
nvidia-smi --query-gpu=name,clocks.sm,power.draw,driver_version --format=csv,noheader
fettle fettle doctor 2>&1 | grep -iE 'cuda|nvrtc'

# Makes NAME.onnx, its code for the CPU and the GPU, and the CPU's outputs of random inputs; then NAME.made.
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
  case $1 in bert*) shape="--shape input_ids=1,128" ;; *) shape= ;; esac
  fettle fettle compile "$1.onnx" -o "$1.cpu.so" --untuned $shape >"$results/$1.cpu.txt" 2>&1 &
  begin=$(date +%s)
  fettle fettle compile "$1.onnx" -o "$1.so" --untuned $shape --target "cuda -arch sm_90a" >"$results/$1.cuda.txt" 2>&1
  echo "$1: compiled in $(($(date +%s) - begin)) s: $(tail -n 1 "$results/$1.cuda.txt")"
  wait
  timeout 60 python3 gpu_models.py "$1.cpu.so" --save "$1.npz" --seconds 0.1 >"$results/$1.reference.txt" 2>&1
  touch "$1.made"
}

names=${MODELS:-mobilenet_v2 resnet50 bert_base vit_b16 mobilenet_v2_f16 resnet50_f16 bert_base_f16 vit_b16_f16}
# Models are made while other parts run.
case " $parts " in
  *" models "*) for name in $names; do make_model "$name" >"$results/$name.made.txt" 2>&1 & done ;;
esac

run_bench() {
  fettle bench-cuda ${ONLY:+--only "$ONLY"}
  cp build/bench/cuda.json "$results/" 2>/dev/null
}
run_fuzz() { fettle fuzz --seed "${SEED:-$(date +%j)}" --traces "${TRACES:-2000}" --backend cuda; }
# Its libraries are given to the compiler alone: Python has its own.
run_convs() {
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/bin/fettle "$@"\n' "$libraries" "$work" >fettle.sh && chmod +x fettle.sh
  timeout "$LIMIT" python3 gpu_convs.py --fettle ./fettle.sh --json "$results/convs.json"
}
run_peers() { timeout "$LIMIT" python3 gpu_peers.py --out "$results/peers.json"; }
run_models() {
  for name in $names; do
    tolerance=1e-3
    case $name in *_f16) tolerance=3e-2 ;; esac
    waited=0
    while [ ! -e "$name.made" ] && [ "$waited" -lt "$LIMIT" ]; do sleep 1 && waited=$((waited + 1)); done
    cat "$results/$name.made.txt"
    timeout 60 python3 gpu_models.py "$name.so" --reference "$name.npz" --tolerance $tolerance --seconds 0.5 --profile 10 --json "$results/$name.json"
  done
}

for part in $parts; do
  since "$part"
  "run_$part" 2>&1 | tee "$results/$part.txt"
done
wait
since end
