# `make demo` and `make test` set up everything they need in .venv on a new machine.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo serve test test-fast test-spark lint build dist sanitize bench bench-quick bench-compare
.PHONY: soak soak-billion kills mutants fuzz docs docs-links clean

demo: .venv/demo
	$(BIN)/dyncrp demo

serve: .venv/serve
	$(BIN)/dyncrp serve --demo

# One process a core, and one thread each: threads that wait for each other's cores take most of the time.
test: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

# About a minute on two cores: without what is marked slow, and with fewer generated examples. It runs every module.
test-fast: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --fast tests

# In an environment of its own, which borrows .venv's packages and has a pandas that Spark can use.
test-spark: .venv-spark/ready
	OMP_NUM_THREADS=1 .venv-spark/bin/python -m pytest -p no:xdist tests/spark tests/test_combining.py -k "spark or ray"

.venv-spark/ready: pyproject.toml | .venv/ready
	@echo "Installing Spark, a Java for it, and Ray: a minute or two"
	$(PYTHON) -m venv .venv-spark
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
	> $$(.venv-spark/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/borrowed.pth
	.venv-spark/bin/python -m pip install --quiet 'dyncrp[spark,cluster]'
	touch $@

# The site, in build/docs/html: it runs the gallery, and warnings and broken internal links are errors.
SPHINX := OMP_NUM_THREADS=1 .venv-docs/bin/python -m sphinx --fail-on-warning --keep-going --quiet
docs: .venv-docs/ready
	rm -rf docs/api  # names may be gone
	$(SPHINX) -b html -d build/docs/doctrees docs build/docs/html
	@echo "The site is in build/docs/html/index.html"

# Links to other sites; needs a network.
docs-links: .venv-docs/ready
	$(SPHINX) -b linkcheck docs build/docs/links

# As .venv-spark, it borrows .venv's packages. BERTopic comes without what finds vectors and clusters: its recipe brings both.
.venv-docs/ready: pyproject.toml | .venv/ready
	@echo "Installing what the site needs: half a minute"
	$(PYTHON) -m venv .venv-docs
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
	> $$(.venv-docs/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/borrowed.pth
	.venv-docs/bin/python -m pip install --quiet 'dyncrp[docs]'
	.venv-docs/bin/python -m pip install --quiet --no-deps bertopic \
	|| echo "BERTopic cannot be installed: its recipe is shown, and does not run"
	touch $@

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror src/dyncrp/*/*.cpp src/dyncrp/*/cpp/*.?pp

# After a change of the C++: compile what changed and install it.
build: .venv/ready
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable . --config-settings=cmake.define.DYNCRP_WERROR=ON

# What a release publishes, in dist/, tried in empty environments of every Python that is here: some ten minutes.
dist:
	PYTHON=$(PYTHON) .ci/dist

# The engine's tests on a copy whose extension has the address and undefined-behaviour sanitizers. An interpreter of its
# own borrows the environment's packages, but not its start-up, which would lead to the other extension.
SANITIZED := build/sanitized
sanitize: .venv/ready
	cmake -S . -B $(SANITIZED) -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DDYNCRP_SANITIZE=ON
	cmake --build $(SANITIZED) --parallel 2
	rm -rf $(SANITIZED)/src && cp -r src $(SANITIZED)/src
	cp $(SANITIZED)/loop*.so $(SANITIZED)/src/dyncrp/engine/
	cp $(SANITIZED)/sweeps*.so $(SANITIZED)/src/dyncrp/baselines/
	$(PYTHON) -m venv --without-pip $(SANITIZED)/venv
	site=$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))"); \
	OMP_NUM_THREADS=1 PYTHONPATH=$(abspath $(SANITIZED)/src):$$site ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	$(SANITIZED)/venv/bin/python -m pytest tests/engine -n 2 -p no:cacheprovider

.venv/bin/python:
	@echo "Creating the virtual environment .venv"
	$(PYTHON) -m venv .venv

# Without bytecode of what the demo does not import, which takes ten seconds.
.venv/demo: pyproject.toml | .venv/bin/python
	@echo "Installing dyncrp and what its demo needs, and compiling its engine: one or two minutes"
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[demo]'
	touch $@

.venv/serve: pyproject.toml | .venv/bin/python
	@echo "Installing dyncrp and what its server needs, and compiling its engine: one or two minutes"
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[serve]'
	touch $@

.venv/ready: pyproject.toml | .venv/bin/python
	@echo "Installing dyncrp and every tool that its tests need, and compiling its engine: some two minutes"
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/demo .venv/serve

bench: .venv/bench
	$(BIN)/python -m benchmarks.speed

bench-quick: .venv/bench
	$(BIN)/python -m benchmarks.speed --quick --results .venv/speed.json --chart .venv/speed.png

# The speed of another commit and of the working tree, in turns: make bench-compare BASE=main
bench-compare: .venv/bench
	$(BIN)/python -m benchmarks.compare $(BASE)

soak: .venv/bench
	$(BIN)/python -m benchmarks.soak

# The long runs of docs/proofs.md. Each may be stopped at any time, and says how far it came.
soak-billion: .venv/bench
	mkdir -p build
	$(BIN)/python -m benchmarks.soak --n 1000000000 --log build/soak.log --results benchmarks/results/soak-billion.json

kills: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python tests/kill_runs.py 1000

# Small errors, one at a time, each of which some test must find; ONLY=loop: those in files of that name.
mutants: .venv/ready
	$(BIN)/python tests/mutants.py $(ONLY)

fuzz: .venv/ready
	mkdir -p build
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py 1000000 --log build/fuzz.log --results build/fuzz.json

.venv/bench: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

clean:
	rm -rf .venv .venv-spark .venv-docs build dist docs/gallery docs/api
