# Headgate. `make` alone prints the targets.

PYTHON ?= python3
SEEDS ?= 1..50
OF ?= all
SECONDS_EACH ?= 300
MODULES ?= core/offsets
MINUTES ?= 20
COMMITS ?= 10000000
DIGITS ?= 0123456789
BIN := .venv/bin
COMPILED := build/compiled
# Tests wait for servers, clients and the clock for a good part of their time: two processes more than there are cores.
IN_PARALLEL := -n $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 2))')
OLDEST := build/oldest
TESTS_OF_OLDEST := tests/wire tests/records tests/log tests/core tests/topics tests/runtime tests/api tests/server tests/admin tests/cli
NEED_SPARK := tests/log/test_batch_records.py tests/log/test_batch_scan.py
TESTS_OF_COMPILED := tests/packaging tests/api tests/api_topics tests/topics tests/runtime tests/history tests/server tests/hostile tests/linearizability tests/simulation

.DEFAULT_GOAL := help
.PHONY: help setup demo test compiled test-compiled test-oldest compat lint simulate hostile mutants bench bench-start bench-spark kafka release clean java

help:  ## Print the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(BIN)/.ready  ## Install what the other targets need, into .venv.

demo: $(BIN)/.ready java  ## Set up, then run the main job: flights, three clients, a crash, Spark, a moving partition.
	@$(BIN)/python -m demo

test: $(BIN)/.ready java  ## Set up, then run the tests.
	$(BIN)/python -m pytest $(IN_PARALLEL) --dist worksteal --ignore=tests/compat --ignore=tests/differential

compiled: $(COMPILED)/.ready  ## Build the package with compiled modules, as pip installs it (a C compiler needed).

test-compiled: $(COMPILED)/.ready  ## Run the tests of what is compiled against compiled modules.
	PYTHONPATH=$(COMPILED) $(BIN)/python -m pytest --compiled $(IN_PARALLEL) --dist worksteal $(TESTS_OF_COMPILED)

test-oldest:  ## Run tests with the oldest versions of the dependencies that pyproject.toml allows.
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tools/oldest_versions.py > $(OLDEST)/versions.txt
	HEADGATE_COMPILE=no $(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/versions.txt \
	  --editable . aiokafka confluent-kafka hypothesis kafka-python kio lz4 pytest pytest-timeout pytest-xdist python-snappy ruff zstandard
	$(OLDEST)/bin/python -m pytest $(IN_PARALLEL) -p no:cacheprovider $(TESTS_OF_OLDEST) $(NEED_SPARK:%=--ignore=%)

compat: $(COMPILED)/.ready  ## Run real clients of five kinds against a live server, compiled, and Apache Kafka beside it (Node and kcat needed).
	@$(BIN)/python tests/compat/check_tools.py
	PYTHONPATH=$(COMPILED) $(BIN)/python -m pytest --compiled $(IN_PARALLEL) --dist loadfile --no-loadscope-reorder tests/compat tests/differential

lint: $(BIN)/.ready  ## Check format, style, types and the import contracts.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

simulate: $(BIN)/.ready  ## Run whole lives of the server from seeds: make simulate SEEDS=1..200 OF=groups|transactions|shares|all
	$(BIN)/python -m tests.simulation --of $(OF) --seeds $(SEEDS)

hostile: $(BIN)/.ready  ## Attack a real server and the ring of its syncs for minutes: make hostile SECONDS_EACH=1800
	$(BIN)/python -m pytest -q -s tests/hostile --timeout 0 --hostile-seconds $(SECONDS_EACH)

mutants: $(BIN)/.ready  ## Change the code and tell which changes no test notices: make mutants MODULES='log' MINUTES=30 DIGITS=37
	$(BIN)/python -m tools.mutants $(MODULES) --minutes $(MINUTES) --digits $(DIGITS)

bench: $(COMPILED)/.ready  ## Measure against peers, side by side in one run (make kafka first, to have Kafka among them).
	PYTHONPATH=$(COMPILED) $(BIN)/python -m bench

bench-start: $(COMPILED)/.ready  ## Measure starts on three million offsets, with and without a checkpoint, beside Kafka.
	PYTHONPATH=$(COMPILED) $(BIN)/python -m bench.start

bench-spark: $(BIN)/.bench-ready java  ## Measure the pipeline on a synthetic log: make bench-spark COMMITS=40000000
	$(BIN)/python -m bench.pipeline --commits $(COMMITS)

kafka: $(BIN)/.ready  ## Fetch Apache Kafka, and Spark's source for it, from Maven Central for the benches and make compat (Java and mvn needed).
	$(BIN)/python -m bench.kafka

release: $(BIN)/.ready  ## Build what is released, from a clean clone of the last commit, and check it: build/release (a C compiler needed).
	$(BIN)/python -m tools.release

clean:  ## Remove what the other targets made.
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache tests/compat/node/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'Python 3.11 or newer is needed; name it with make PYTHON=python3.11 ...'; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(BIN)/.bench-ready: $(BIN)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

$(COMPILED)/.ready: $(BIN)/.ready tools/build_hook.py tools/compile_modules.py $(shell find src -name '*.py')
	@echo 'Compiling headgate (three minutes or so) ...'
	@rm -rf $(COMPILED) build/wheel
	@HEADGATE_COMPILE=yes $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel .
	@$(BIN)/python -m zipfile -e build/wheel/headgate-*.whl $(COMPILED)
	@touch $@

java:
	@command -v java >/dev/null || { echo 'Java 17 or newer is needed (Spark runs on it): install a JDK, e.g. openjdk-17-jdk-headless'; exit 1; }
