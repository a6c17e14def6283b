# `make demo` and `make test` set up everything they need in .venv on a new machine.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-fast lint bench bench-quick bench-real soak clean clean-cache

demo: .venv/ready
	$(BIN)/dyncrp demo

# One process a core, and one thread each: threads that wait for each other's cores take most of the time.
test: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

# About a minute on two cores: without what is marked slow, and with fewer generated examples. It runs every module.
test-fast: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --fast tests

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

bench: .venv/bench
	$(BIN)/python -m benchmarks.speed

bench-quick: .venv/bench
	$(BIN)/python -m benchmarks.speed --quick --results .venv/speed.json --chart .venv/speed.png

bench-real: .venv/bench
	$(BIN)/python -m benchmarks.real

soak: .venv/bench
	$(BIN)/python -m benchmarks.soak

.venv/bench: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

clean: clean-cache
	rm -rf .venv

clean-cache:
	find src -name '*.nbi' -delete -o -name '*.nbc' -delete
