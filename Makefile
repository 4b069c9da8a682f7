# make demo           three models with control flow, run and checked, and a TreeLSTM from Python
# make wheel          the Python package, in target/wheels
# make wheel-aarch64  the same for aarch64, in target/wheels-aarch64, tried on an emulated processor
# make wheel-free-threaded PYTHON_FREE_THREADED=python3.14t  the same for a CPython without GIL, with the tests of the package
# make test           everything that is tested, in about half an hour on 2 cores
# make test-gpu       models, cases and random programs on simulated GPUs, cases through a fake CUDA driver
# make gpu-kit [ZOO=DIR]   a folder with all that a machine with an NVIDIA GPU needs to test and measure Heddle; DIR has the zoo's sources
# make zoo ZOO=DIR    the zoo's models against their float64 references, and no tests in their innermost loops
# make batching ZOO=DIR  the same of the zoo for batches
# make bench-zoo ZOO=DIR   times on the zoo's dynamic models: control flow on the host, compiled, traced
# make bench-steps    each step of compiling on the program where it pays
# make bench-import   time and memory to import 3 GB of weights
# make test STAGES="corpus-dump corpus"   some stages of the test only

PYTHON ?= python3
VENV := .venv
HEDDLE := target/release/heddle
export PATH := $(PATH):$(HOME)/.cargo/bin
export PYTHON
export PYTHONDONTWRITEBYTECODE := 1
export PYTHON_FREE_THREADED

.PHONY: build setup wheel wheel-aarch64 wheel-free-threaded demo test test-gpu gpu-kit zoo batching bench-zoo bench-steps bench-import clean

build: setup
	cargo build --release

setup: $(VENV)/.stamp

$(VENV)/.stamp: scripts/requirements.txt scripts/setup.sh
	scripts/setup.sh $(VENV)
	touch $@

wheel: setup
	$(VENV)/bin/python -m maturin build --release --out target/wheels

wheel-aarch64 wheel-free-threaded: setup
	$(VENV)/bin/python scripts/run_stages.py $@

demo: build wheel
	$(VENV)/bin/python scripts/demo.py
	$(VENV)/bin/python scripts/demo_python.py target/wheels

test: setup
	scripts/setup_clang.sh
	$(VENV)/bin/python scripts/run_stages.py $(STAGES)

test-gpu: setup
	$(VENV)/bin/python scripts/run_stages.py build onnx-dump corpus-dump models-dump \
	  gpu-random gpu-mutants gpu-models-1 gpu-models-2 gpu-models-3 gpu-corpus-1 gpu-corpus-2 gpu-corpus-3 \
	  gpu-thread gpu-address gpu-cuda gpu-onnx

gpu-kit: setup
	cargo build --release --workspace --bins --example program
	$(VENV)/bin/python tests/corpus/make_corpus.py target/corpus
	$(VENV)/bin/python tests/models/make_models.py target/models
	$(VENV)/bin/python scripts/gpu_kit/build.py target/gpu-kit --heddle $(HEDDLE) --program target/release/examples/program \
	  --cases target/corpus/cases target/models $(if $(ZOO),--zoo $(ZOO))

zoo: build
	@test -n "$(ZOO)" || { echo "usage: make zoo ZOO=FOLDER (what the zoo's make.py wrote)"; exit 2; }
	$(VENV)/bin/python scripts/check_zoo.py $(ZOO)
	$(VENV)/bin/python scripts/check_zoo.py $(ZOO) --f64
	$(VENV)/bin/python scripts/check_loops.py $(HEDDLE) $(ZOO)

batching: build
	@test -n "$(ZOO)" || { echo "usage: make batching ZOO=FOLDER (what make.py of the zoo for batches wrote)"; exit 2; }
	$(VENV)/bin/python scripts/check_batching.py $(ZOO)
	$(VENV)/bin/python scripts/check_batching.py $(ZOO) --f64

bench-zoo: build
	@test -n "$(ZOO)" || { echo "usage: make bench-zoo ZOO=FOLDER (what the zoo's make.py wrote)"; exit 2; }
	$(VENV)/bin/python scripts/bench_zoo.py $(ZOO)

bench-steps: build
	$(VENV)/bin/python scripts/bench_steps.py

bench-import: build
	$(VENV)/bin/python scripts/big_model.py target/big --heddle $(HEDDLE)

clean:
	cargo clean
	rm -rf $(VENV)
