# The commands of everyday. CMake does the building; this file only remembers how to call it.
#   make PRESET=asan test    builds and tests in build/asan; without PRESET, a release build in build/

PRESET ?=
BUILD  := build$(if $(PRESET),/$(PRESET))
JOBS   ?= $(shell nproc)
PYTHON := build/python/bin/python
SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.cpp' '*.h' '*.c')

.DEFAULT_GOAL := build
.PHONY: build setup configure test fetch models demo bench bench-attention bench-candidates bench-core bench-cuda bench-decode bench-import bench-jax bench-learning bench-robust bench-model bench-numerics bench-operators bench-polyhedral bench-python bench-quantised bench-recurrent bench-schedule bench-search bench-shapes bench-sizes bench-split bench-streams bench-tasks bench-threads bench-tiles bench-torch bench-vendor check-hostile check-jax check-stablehlo check-torch check-wheel conformance docs reference fuzz fuzz-models fuzz-parsers format gpu-bundle lint sdist wheel site clean distclean help

build: configure ## Build everything (the default); binaries are in build/bin
	@cmake --build $(BUILD) -j $(JOBS)

setup: ## Install what is missing: Debian packages, Python environment
	@scripts/setup.sh

configure: setup
	@mkdir -p $(BUILD); test -e $(BUILD)/build.ninja || cmake --preset $(or $(PRESET),release) -B $(BUILD) > $(BUILD)/configure.log 2>&1 \
	  || { tail -n 20 $(BUILD)/configure.log >&2; rm -f $(BUILD)/build.ninja; exit 1; }

fetch: setup ## Fetch the real models, which are all that the demo needs
	@scripts/fetch_models.py

models: fetch ## Fetch or make all models that tests and benchmarks use
	@$(PYTHON) scripts/make_models.py

test: configure models ## Build what tests need, then run every test
	@scripts/setup.sh --test
	@cmake --build $(BUILD) -j $(JOBS) --target fettle_tests
	@ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error

demo: configure fetch ## Tune a real model for 60 s, write demo/model.so and demo/model.h, compare with its peers
	@cmake --build $(BUILD) -j $(JOBS) --target fettle bench_model
	@scripts/demo.sh

bench: build models ## All models against ONNX Runtime and OpenVINO, untuned and tuned (about an hour)
	@$(BUILD)/bin/bench-models $(ARGS)

bench-attention: build ## Attention alone and in encoders, untuned, against ONNX Runtime and OpenVINO
	@$(PYTHON) benchmarks/bench_attention.py $(ARGS)

bench-candidates: build ## How fast a search's candidates are made, checked and ranked
	@$(BUILD)/bin/bench-candidates

bench-core: build ## Kernels against the peak of this machine and oneDNN
	@$(BUILD)/bin/bench-core

bench-tiles: build ## Products by the tile unit (AMX) against tiles from the first-level cache and oneDNN
	@$(BUILD)/bin/bench-tiles $(ARGS)

bench-import: build ## Large models: how long reading and optimising them takes
	@$(BUILD)/bin/bench-import $(ARGS)

bench-model: build fetch ## A whole model against ONNX Runtime and OpenVINO
	@$(BUILD)/bin/bench-model

bench-decode: build ## Weights of 4 bits: cold products of one row, a decoder beside ONNX Runtime
	@$(PYTHON) benchmarks/bench_decode.py $(ARGS)

bench-numerics: build ## How far results are from the exact ones: sums, products, convolutions, functions (docs/numerics.md)
	@$(PYTHON) benchmarks/bench_numerics.py $(ARGS)

bench-operators: build ## Operators alone, untuned, against ONNX Runtime: where the default has a hole
	@$(PYTHON) benchmarks/bench_operators.py $(ARGS)

bench-polyhedral: build ## The programs of PolyBench as comprehensions, untuned, beside C by gcc, clang and Polly
	@FETTLE_WORKER=$(BUILD)/bin/fettle-worker PYTHONPATH=$(BUILD)/python-package $(PYTHON) benchmarks/bench_polyhedral.py $(ARGS)

bench-python: build fetch ## What Python adds: calls beside C++, importing, compiling and what is kept
	@FETTLE_WORKER=$(BUILD)/bin/fettle-worker PYTHONPATH=$(BUILD)/python-package $(PYTHON) benchmarks/bench_python.py $(ARGS)

bench-quantised: build models ## Quantised models, untuned, against ONNX Runtime and OpenVINO, and products of bytes against the peak
	@$(PYTHON) benchmarks/bench_quantised.py $(ARGS)

bench-recurrent: build ## Recurrent layers and small loops, untuned, against ONNX Runtime and OpenVINO
	@$(PYTHON) benchmarks/bench_recurrent.py $(ARGS)

bench-robust: build ## Tunings whose processes are killed, whose candidates misbehave, that run for long
	@$(BUILD)/bin/bench-robust

bench-schedule: build ## Schedules by hand against the peaks of this machine
	@$(BUILD)/bin/bench-schedule

bench-cuda: build ## Schedules by hand on an NVIDIA GPU, beside cuBLAS and a copy; says so where there is none
	@$(BUILD)/bin/bench-cuda

gpu-bundle: build ## Pack what a GPU is measured with, for a machine that has one: build/gpu/bundle.tar.xz, build/gpu/run.sh
	@cmake --build $(BUILD) -j $(JOBS) --target fuzz
	@scripts/gpu_bundle.sh

bench-search: build ## Ways to search compared over 25 tasks (hours; goes on where it was interrupted): make bench-search ARGS="--trials 64"
	@$(BUILD)/bin/bench-search $(ARGS)

bench-learning: build ## What tuning some programs teaches about others: make bench-learning ARGS="a.jsonl b.jsonl" (docs/search.md)
	@$(BUILD)/bin/bench-learning $(ARGS)

bench-shapes: build ## Random shapes of products, convolutions, norms and attention, untuned: make bench-shapes ARGS="--seed 7"
	@$(PYTHON) benchmarks/bench_shapes.py $(ARGS)

bench-sizes: build models ## Kernels and models whose sizes are open beside those that were made for one size
	@$(PYTHON) scripts/make_models.py --open
	@$(BUILD)/bin/bench-sizes

bench-split: build ## Products of single precision in parts of bf16, by AMX, over the FMA peak, and their errors
	@$(BUILD)/bin/bench-split $(ARGS)

bench-streams: build models ## As many calls at once as cores: tuned for that and for one call, beside ONNX Runtime
	@PYTHONPATH=$(BUILD)/python-package $(PYTHON) benchmarks/bench_streams.py $(ARGS)

bench-tasks: build models ## Three models tuned for five minutes each: which tasks improve, how far others are from the machine's limits
	@$(BUILD)/bin/bench-tasks --fresh

bench-threads: build ## Fork and join, idle teams, crowded and disturbed CPUs
	@$(BUILD)/bin/bench-threads

bench-torch: build ## Models of torch by torch.compile, beside eager mode and Inductor (docs/torch.md)
	@scripts/setup.sh --torch
	@PYTHONPATH=$(BUILD)/python-package build/python-torch/bin/python benchmarks/bench_torch.py $(ARGS)

check-torch: build ## torch.compile(backend="fettle") beside eager mode: makes build/python-torch, runs all of tests/torch
	@scripts/setup.sh --torch
	@FETTLE_TORCH_NETWORKS=all ctest --test-dir $(BUILD) -R '^Torch[.]' -j $(JOBS) --output-on-failure --no-tests=error

bench-vendor: build models ## Models with oneDNN's kernels among the candidates: make bench-vendor ARGS="--only magika --time 1m"
	@PYTHONPATH=$(BUILD)/python-package $(PYTHON) benchmarks/bench_vendor.py $(ARGS)

bench-jax: build ## Programs of JAX on Fettle beside XLA's CPU client (docs/jax.md)
	@scripts/setup.sh --jax
	@PYTHONPATH=$(BUILD)/python-package build/python-jax/bin/python benchmarks/bench_jax.py $(ARGS)

check-jax: build ## JAX_PLATFORMS=fettle beside JAX's CPU client: makes build/python-jax, runs all of tests/jax
	@scripts/setup.sh --jax
	@FETTLE_JAX_HARNESSES=all FETTLE_JAX_RESULTS=$(CURDIR)/build/jax ctest --test-dir $(BUILD) -R '^Jax[.]' -j $(JOBS) --output-on-failure --no-tests=error

check-stablehlo: build ## Programs that JAX exports, in all forms, beside JAX's CPU client (tests/stablehlo)
	@scripts/setup.sh --jax
	@PYTHONPATH=$(BUILD)/python-package FETTLE_WORKER=$(BUILD)/bin/fettle-worker build/python-jax/bin/python tests/stablehlo/check_programs.py $(ARGS)

conformance: build ## ONNX's tests of backends on compiled code, and real models: the tables of docs/conformance.md
	@PYTHONPATH=$(BUILD)/python-package $(PYTHON) tests/conformance/conformance.py --write
	@PYTHONPATH=$(BUILD)/python-package $(PYTHON) tests/conformance/check_models.py --write

check-hostile: configure ## Every kind of hostile file in all its variants: each must be refused (tests/hostile)
	@cmake --build $(BUILD) -j $(JOBS) --target test_hostile fettle
	@FETTLE_HOSTILE=all $(BUILD)/bin/test_hostile

docs: ## Write docs/schedule/ anew, from the primitives' headers
	@scripts/primitive_pages.py

reference: build ## Write docs/reference/ anew, from the package's docstrings and the command's help
	@FETTLE_UPDATE_GOLDEN=1 PYTHONPATH=$(BUILD)/python-package FETTLE_WORKER=$(BUILD)/bin/fettle-worker \
	  $(PYTHON) python/tests/test_reference.py

site: setup ## The pages as a site, in build/site; links are checked
	@$(PYTHON) -m mkdocs build --strict -q -f site/mkdocs.yml

fuzz: configure ## Random programs under random schedules, compiled against interpreted: make fuzz SEED=1 N=20000 BACKEND=llvm PROGRAMS=affine
	@cmake --build $(BUILD) -j $(JOBS) --target fuzz
	@$(BUILD)/bin/fuzz --seed $(or $(SEED),1) --traces $(or $(N),20000) --backend $(or $(BACKEND),llvm) --programs $(or $(PROGRAMS),all)

fuzz-models: build ## Random models with open sizes, branches, loops and all types, beside ONNX Runtime: make fuzz-models SEED=1 N=3000
	@PYTHONPATH=$(BUILD)/python-package $(PYTHON) tests/random_models/random_models.py --seed $(or $(SEED),1) --count $(or $(N),3000) \
	  --processes $(JOBS) $(ARGS)

fuzz-parsers: setup ## Random models, traces, programs and records under sanitizers (tests/fuzz/parsers): make fuzz-parsers SECONDS=600
	@PYTHON=$(PYTHON) tests/fuzz/parsers/run.sh $(or $(SECONDS),60) $(JOBS)

format: ## Format every source file
	@scripts/setup.sh --dev
	@clang-format-19 -i $(SOURCES)

lint: ## Check format, includes, duplicates, and what clang-tidy has to say of each file alone
	@$(MAKE) --no-print-directory PRESET=debug configure
	@scripts/setup.sh --dev
	@scripts/check_includes.py
	@scripts/check_duplicates.py
	@clang-format-19 --dry-run -Werror $(SOURCES)
	@cmake --build build/debug -j $(JOBS) --target fettle_onnx_proto fettle_devices_proto
	@run-clang-tidy-19 -quiet -p build/debug -j $(JOBS) -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-ignored-gch '/(src|tests|benchmarks)/.*\.cpp$$'

wheel: ## The Python package with the command, to be installed without anything else: dist/fettle-….whl (docs/install.md)
	@scripts/setup.sh --wheel
	@scripts/make_wheel.sh

sdist: ## The source distribution: dist/fettle-….tar.gz
	@scripts/setup.sh --wheel
	@scripts/make_wheel.sh --sdist

check-wheel: fetch ## Install the wheel in an empty root without a network; compile, tune and run there (tests/wheel)
	@tests/wheel/check_wheel.sh

clean: ## Delete what was compiled; keep the Python environment and models
	@test ! -e $(BUILD)/build.ninja || cmake --build $(BUILD) --target clean

distclean: ## Delete everything that is not source
	@rm -rf build build-wheel demo dist

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
