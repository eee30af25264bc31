# Cohort: what to run.  Everything installs what it needs; nothing is asked.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PYTEST := $(BIN)/python -P -m pytest
ARGS ?=

# One Python for the driver, the executors and the stream reader.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.PHONY: help venv jars jdk hosts prometheus chromium classes lint test test-all reached test-unit test-e2e parity test-newest oldest test-oldest simulate chaos optimum model fuzz demo bench bench-assignors wheel wheels wheel-tools clean

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

venv: ## the environment, with this tree's wheel installed in it
	@tools/bootstrap.sh venv

jars: ## the real broker's, its tools' and the peer's jars, for tests and bench
	@tools/bootstrap.sh jars

jdk: ## a Java with its compiler, for what asks Kafka's own classes
	@tools/bootstrap.sh jdk

hosts: ## the programs with which one test makes a network of its own
	@tools/bootstrap.sh hosts

prometheus: ## Prometheus and promtool, with which rules and dashboard are tested
	@tools/bootstrap.sh prometheus

chromium: ## Debian's Chromium, in which the live page is tested
	@tools/bootstrap.sh chromium

classes: venv jars ## archives of the classes of Spark and the broker: JVMs of tests start with half the CPU
	@$(BIN)/python -P -m tests.kit.class_archives

lint: venv ## ruff and mypy, both strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test: venv ## what every change needs: pure tests, each feature on a real Kafka broker and a real Spark, lint
	@$(BIN)/python -P tools/run_tests.py $(ARGS)

test-all: venv ## everything: before a release, or when the data path or the group has changed
	@$(BIN)/python -P tools/run_tests.py --tier all $(ARGS)

TIER ?= test

reached: venv ## which lines of the product a tier reaches, in every process: TIER=all
	@$(BIN)/python -P tools/reached.py prepare
	@$(BIN)/python -P tools/run_tests.py --tier $(TIER) $(ARGS) || true
	@$(BIN)/python -P tools/reached.py report
	@$(BIN)/python -P tools/reached.py restore

test-unit: venv ## the pure tests only
	@$(PYTEST) tests/unit $(ARGS)

test-e2e: venv jars hosts prometheus chromium classes ## Spark and the real broker only
	@$(PYTEST) tests/e2e $(ARGS)

parity: venv jars classes ## the scenarios of Spark's own Kafka suites, on both formats, compared; with each reader
	@for reader in jvm python; do \
		COHORT_READER=$$reader $(PYTEST) --tier all $$($(BIN)/python -P -m tests.kit.scenarios) $(ARGS); done

# Those that need no peer: Spark's own Kafka source is not published for newer versions.
NEWEST := $(addprefix tests/e2e/test_,agents.py executors.py errors.py exclusivity.py brokers.py jvm_reader.py metrics.py sources.py spark_releases.py)
NEWEST_PYTHON := $(CURDIR)/.venv-newest/bin/python

test-newest: jars ## the streaming tests on the newest PySpark 4
	@tools/bootstrap.sh newest
	@PYSPARK_PYTHON=$(NEWEST_PYTHON) PYSPARK_DRIVER_PYTHON=$(NEWEST_PYTHON) \
		$(NEWEST_PYTHON) -P -m pytest $(NEWEST) $(ARGS)

OLDEST := $(addprefix tests/,unit/protocol unit/assignors/test_sticky.py unit/assignors/test_load_balanced.py unit/options/test_topic_pattern.py \
	unit/driver/test_metrics.py shell/rpc shell/driver/test_metrics_endpoint.py shell/kafka/test_token_provider.py shell/cli/test_lazy_commands.py \
	shell/consumer/test_columns.py shell/values/test_json_decoder.py)
OLDEST_PYTHON := $(CURDIR)/.venv-oldest/bin/python

oldest: venv ## .venv-oldest: the oldest dependencies that pyproject.toml allows, with this tree's wheel
	@tools/bootstrap.sh oldest

test-oldest: oldest jars ## what uses each dependency, and one stream, on the oldest of them
	@PYSPARK_PYTHON=$(OLDEST_PYTHON) PYSPARK_DRIVER_PYTHON=$(OLDEST_PYTHON) \
		$(OLDEST_PYTHON) -P -m pytest $(OLDEST) tests/e2e/test_sources.py $(ARGS)

SEEDS ?= 10000
DRAWS ?= 20000

simulate: venv ## the group under drawn faults: SEEDS=10000, ARGS="--first 2000"
	@$(BIN)/python -P -m tests.simulator --seeds $(SEEDS) $(ARGS)

optimum: venv ## the sticky assignors beside an exact optimum: DRAWS=20000
	@$(BIN)/python -P -m tests.kit.optimum $(DRAWS)

model: venv ## all that two members and three partitions can come to: ARGS="--faults 3 --strays 1"
	@$(BIN)/python -P -m tests.model.check $(ARGS)

TIME ?= 60
SEED ?= 1

fuzz: venv ## all that reads bytes from outside: TIME=60 (seconds each), SEED=1, ARGS="json codecs"
	@$(BIN)/python -P -m tests.kit.fuzzing $(TIME) $(SEED) $(ARGS)

MINUTES ?= 10

chaos: venv jars hosts classes ## a query on three brokers, hurt on purpose, and a verdict: MINUTES=10, ARGS="--seed 7"
	@tools/bootstrap.sh java
	@$(BIN)/python -P -m tests.chaos $(MINUTES) $(ARGS)

demo: venv ## a stream with its live page, a killed executor, a verdict: ARGS=--stay keeps the page
	@tools/bootstrap.sh java
	@$(BIN)/python -P tools/demo $(ARGS)

bench: venv jars ## this source and Spark's own side by side
	@$(BIN)/python -P tools/bench source $(ARGS)

bench-assignors: venv jdk jars ## the assignors beside Kafka's own, up to a million partitions
	@$(BIN)/python -P tools/bench assignors $(ARGS)

wheel: venv ## the wheel, into dist/
	@tools/bootstrap.sh uv build --quiet --wheel --out-dir dist && rm -rf build *.egg-info && ls dist/*.whl

wheel-tools: ## the compiler and the auditors of the wheels that ship
	@tools/bootstrap.sh wheels

wheels: venv wheel-tools ## the wheels that ship (manylinux, musllinux; x86-64, aarch64) and the sdist, into dist/, looked through: ARGS="--only musllinux-aarch64"
	@tools/bootstrap.sh foreign
	@.venv-wheels/bin/python -P tools/wheels $(ARGS)

clean: ## remove what was made here
	rm -rf .venv .cache build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log
