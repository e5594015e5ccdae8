#!/bin/sh
# Builds the fuzzers of what reads files, by clang, and runs each for SECONDS: run.sh SECONDS JOBS
# What they find lies in build/fuzz/findings. Exit status 1 where they find something.
set -eu
seconds=$1 jobs=$2
build=build/fuzz
probe='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
if ! echo "$probe" | clang++-19 -fsanitize=fuzzer,address -x c++ - -o /dev/null 2> /dev/null; then
  echo "fuzz-parsers needs clang-19 with its run-time library: install what scripts/packages-debian-dev.txt lists" >&2
  exit 1
fi
mkdir -p $build/findings $build/corpus
test -e $build/build.ninja || cmake --preset fuzz > $build/configure.log 2>&1 || { tail -n 20 $build/configure.log >&2; exit 1; }
cmake --build $build -j "$jobs" --target fuzz_parsers
"${PYTHON:-python3}" tests/fuzz/parsers/seeds.py $build/seeds
status=0
for subject in model trace loops records comprehension stablehlo; do
  mkdir -p $build/corpus/$subject
  echo "fuzz_$subject, for $seconds s"
  # Constants that a damaged file claims are no leak, and take no memory that is not there.
  ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 \
    $build/bin/fuzz_$subject -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=8192 \
    -print_final_stats=1 -artifact_prefix=$build/findings/$subject- $build/corpus/$subject $build/seeds/$subject \
    > $build/findings/$subject.log 2>&1 || { status=1; tail -n 40 $build/findings/$subject.log; }
  grep -E "stat::|DONE" $build/findings/$subject.log || true
done
exit $status
