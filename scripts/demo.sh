#!/bin/sh
# Tunes a real model for a minute and compares it with its peers. `make demo` calls this after building and fetching.
# Leaves demo/model.so, demo/model.h and demo/records.db; run again, it goes on from those records.
set -eu
cd "$(dirname "$0")/.."
model=build/models/ppocrv4_rec.onnx
shape=x=1,3,48,320
threads=$(nproc)
test "$threads" -le 2 || threads=2

mkdir -p demo
build/bin/fettle compile "$model" --shape "$shape" --threads "$threads" --untuned -o build/demo-untuned.so
build/bin/fettle tune "$model" --shape "$shape" --threads "$threads" --db demo/records.db --time "${1:-60s}"
build/bin/fettle compile "$model" --shape "$shape" --threads "$threads" --db demo/records.db -o demo/model.so
echo
build/bin/bench-model --model "$model" --shape "$shape" --threads "$threads" \
  --untuned build/demo-untuned.so --tuned demo/model.so
