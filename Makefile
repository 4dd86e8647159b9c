# `make run` and `make test` need Python 3.11+ and nothing else; the rest builds on them.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.SHELLFLAGS := -eu -c

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif
VENV_PYTHON := .venv/bin/python
BENCH_TURNS := --seconds 0.15 --rounds 30
# Without its compiled modules a broker starts in three times the time.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := codecs conformance docker groups kwire log tests tools txn

# Of `make run` and `make cluster`: more settings, e.g. make run ARGS='--set num.partitions=3'
ARGS ?=
# Of the tests: what they draw at random, and the order of their files
SEED ?= 1
ORDER ?= $(SEED)
# How they are run: each file by one worker (those on Spark by two, see tests/ordering.py), and
# six at a time on two cores, for they wait more than they compute
WORKERS := -n 6 --dist loadfile --seed=$(SEED) --order=$(ORDER)
# Of `make pytest`: what to run and how, e.g. make pytest TESTS='tests/log -k recovery'
TESTS ?= $(WORKERS) -m 'not long'
# Of `make spark`: an older Spark, one of requirements/spark-*.txt
SPARK ?= 4.0.0
# Of `make dist`: the public address of the repository; of `make dist-check`: who installs the wheel
REPOSITORY ?=
PYTHONS ?= $(PYTHON)
# Of `make image`: the image that brings Python, and the name of what is built
BASE_IMAGE ?= python:3.12-slim
IMAGE ?= kwire

.PHONY: help run cluster test test-long ready check collected pytest shaken format generated env \
	env-dev lock image image-compose upgrade conformance access clients suite chaos chaos-cluster chaos-mixed churn hostile simulate crash mutants \
	spark bench flames bench-cluster bench-growth bench-mixed metadata-records metrics dashboard opening demo clean \
	console-figures console-pictures registry-figures dist dist-check workflows release-notes env-release kubernetes docs docs-pictures

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

run: env ## start a broker on localhost:9092, its data in ./kwire-data
	@exec .venv/bin/kwire serve $(ARGS)

cluster: env-dev ## start ZooKeeper (needs Java) and three brokers from localhost:9092 on; ARGS='--brokers 5', '--kraft'
	@exec .venv/bin/kwire cluster up $(ARGS)

test: ready ## what every change must pass: format, lint, types, generated code, tests
	$(MAKE) --no-print-directory pytest

test-long: ready ## what a release must pass: the same, and the tests that take long
	$(VENV_PYTHON) -m pytest $(WORKERS)

ready: env-dev
	$(MAKE) --no-print-directory --jobs=2 check collected

check: env-dev ## all checks that run nothing: format, lint, types, generated code
	$(VENV_PYTHON) -m ruff format --check $(SOURCES)
	$(VENV_PYTHON) -m ruff check $(SOURCES)
	$(VENV_PYTHON) tools/typecheck.py
	$(VENV_PYTHON) -m kwire.codecs.generator --check
	$(VENV_PYTHON) tools/derived.py --check

collected: env-dev
	@$(VENV_PYTHON) tools/collected.py

pytest: env-dev ## the tests alone
	$(VENV_PYTHON) -m pytest $(TESTS)

shaken: env-dev ## the async tests, with pauses of the loop drawn from SEED: which of them need a quiet machine
	$(VENV_PYTHON) -m pytest $(TESTS) --shaken=$(SEED)

format: env-dev ## format the sources and mend what the linter can
	$(VENV_PYTHON) -m ruff check --fix $(SOURCES)
	$(VENV_PYTHON) -m ruff format $(SOURCES)

generated: env-dev ## write messages, tables and pages from what declares them: schemas, handlers, settings, commands
	$(VENV_PYTHON) -m kwire.codecs.generator
	$(VENV_PYTHON) tools/derived.py

upgrade: env-dev ## move to another release of Apache Kafka, with a list of what is new: KAFKA=4.5.0, or a folder of its jars
	$(VENV_PYTHON) -m tools.upgrade $(KAFKA) $(if $(FROM),--from $(FROM)) $(ARGS)

access: env-dev ## who may ask what: Apache Kafka's answers beside those that are kept
	$(VENV_PYTHON) -m kwire.conformance.access $(ARGS)

conformance: env-dev ## kwire against Apache Kafka: the same bytes, the same answers; then clients' suites
	$(VENV_PYTHON) -m kwire.conformance --report artifacts/conformance $(ARGS)
	$(VENV_PYTHON) -m kwire.conformance.clients
	$(VENV_PYTHON) -m kwire.conformance.clients --oracle --report artifacts/clients-oracle

clients: env-dev ## the test suites of public clients, from their sources
	$(VENV_PYTHON) -m kwire.conformance.clients $(ARGS)

suite: env-dev ## a suite of 212 tests by stock clients, on kwire.testing and on Apache Kafka; ARGS='--workers 8 --rounds 100'
	$(VENV_PYTHON) -m kwire.conformance.suite $(ARGS)

chaos: env-dev ## 200 rounds of kills, pauses, restarts and shortages under load; ARGS='--workload bank --seed N'
	$(VENV_PYTHON) -m kwire.conformance.chaos $(ARGS)

chaos-cluster: env-dev ## 300 rounds on three brokers, in blocks of 50, which go on after an interruption; ROUNDS= SEED= ARGS='--workload bank'
	$(VENV_PYTHON) -m kwire.conformance.chaos.cluster $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(ARGS)

chaos-mixed: env-dev ## 100 rounds on brokers of kwire and Apache Kafka 4.4 beside its controllers, in blocks of 50; ROUNDS= SEED=
	$(VENV_PYTHON) -m kwire.conformance.chaos.mixed $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(ARGS)

churn: env-dev ## members of all group protocols come, go, are killed and paused, as their broker is; MINUTES=30 SEED=
	$(VENV_PYTHON) -m kwire.conformance.chaos.churn $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(ARGS)

hostile: env-dev ## 100,000 mutated frames against a running broker
	KWIRE_HOSTILE_FRAMES=100000 $(VENV_PYTHON) -m pytest -s --timeout 3600 tests/hostile

simulate: env-dev ## brokers that replicate, that share groups read, that share one process' metadata, in random events; SEEDS=10000
	KWIRE_SIMULATED_SEEDS=$(or $(SEEDS),10000) $(VENV_PYTHON) -m pytest -s --timeout 36000 \
		tests/cluster/replication/simulation tests/cluster/replication/metadata_simulation tests/coordinators/share_partitions/simulation tests/cluster/shared_simulation -k many

crash: env-dev ## kill -9 under load: what was acknowledged is there
	KWIRE_CRASH_ROUNDS=20 $(VENV_PYTHON) -m pytest -s --timeout 3600 tests/crash

mutants: ## faults that no test notices, by mutmut: hours; ARGS='log --sample 40', a room or module of it
	@$(if $(PYTHON),,echo 'kwire needs Python 3.11 or newer on PATH' >&2; exit 1;) \
	$(PYTHON) tools/environment.py mutants
	nice -n 19 $(VENV_PYTHON) tools/mutants.py $(ARGS)

spark: ## the tests of Spark's connector with an older Spark, in build/spark-4.0.0; SPARK=4.0.0 TESTS=tests/pipeline
	@$(if $(PYTHON),,echo 'kwire needs Python 3.11 or newer on PATH' >&2; exit 1;) \
	$(PYTHON) tools/environment.py spark-$(SPARK)
	build/spark-$(SPARK)/bin/python -m pytest --seed=$(SEED) --order=$(ORDER) \
		$(if $(filter command line,$(origin TESTS)),$(TESTS),tests/spark/connector)

bench: env-dev ## kwire beside Apache Kafka, into RESULTS.md, row by row, which goes on after an interruption; ARGS='--fresh', AGAINST=COMMIT: beside itself as it was
	$(VENV_PYTHON) -m kwire.conformance.bench $(if $(AGAINST),$(BENCH_TURNS) --against $(AGAINST)) $(ARGS)

flames: env-dev ## where kwire's time goes in each row: flame graphs and flames.md in build/flames; ARGS='--only tiny1'
	$(VENV_PYTHON) -m kwire.conformance.bench.flames $(ARGS)

bench-cluster: env-dev ## three brokers beside three of Apache Kafka; ARGS='--kraft', '--alone', '--only failover'
	$(VENV_PYTHON) -m kwire.conformance.bench.cluster $(ARGS)

bench-growth: env-dev ## what requests, memory and starts cost as things grow, into GROWTH.md; ARGS='--only session --no-apache'
	$(VENV_PYTHON) -m kwire.conformance.bench.growth $(ARGS)

bench-mixed: env-dev ## ten minutes of mixed load in blocks, which go on after an interruption, and the loop's stalls, into MIXED.md; MINUTES=
	$(VENV_PYTHON) -m kwire.conformance.bench.mixed $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

metadata-records: env-dev ## what Apache Kafka's controllers write beside kwire's brokers and beside their own
	$(VENV_PYTHON) -m kwire.conformance.kraft $(ARGS)

opening: env-dev ## start-up on 10,000 partitions, and on 10 GB after kill -9, beside Apache Kafka's
	$(VENV_PYTHON) -m kwire.conformance.bench.opening $(ARGS)

metrics: env-dev ## kwire's metrics beside Apache Kafka's after the same load, within 2 %; ARGS='--brokers 3'
	$(VENV_PYTHON) -m kwire.conformance.metrics --report artifacts/metrics.md $(ARGS)

dashboard: env-dev ## the dashboard's queries to a real Prometheus, which Go builds once; ARGS='--brokers 3'
	$(VENV_PYTHON) -m kwire.conformance.metrics.panels $(ARGS)

demo: env-dev ## a year of flights through the broker, a consumer group and Spark
	$(VENV_PYTHON) -m kwire.pipeline.demo

console-figures: env-dev ## how soon the console's pages are painted, and its live tail of 5,000 records/s, into docs/console.md
	KWIRE_CONSOLE_FIGURES=1 $(VENV_PYTHON) -m pytest -s tests/console/browser/test_figures.py

registry-figures: env-dev ## start and look-ups of a schema registry with 50,000 schemas, into docs/registry.md
	KWIRE_REGISTRY_FIGURES=1 $(VENV_PYTHON) -m pytest -s tests/registry/test_figures.py

console-pictures: env-dev ## the pictures in docs/console.md, after four minutes of traffic
	KWIRE_CONSOLE_PICTURES=240 $(VENV_PYTHON) -m pytest tests/console/browser/test_pictures.py

dist: env-release ## build the sdist and the wheel in dist/, and check them: REPOSITORY=https://...
	build/release/bin/python tools/dist.py $(if $(REPOSITORY),--repository '$(REPOSITORY)')

dist-check: ## install the wheel in dist/ by pip, uv and pipx, and use it: PYTHONS='python3.11 python3.14' ARGS='pip uvx'
	@for python in $(PYTHONS); do $$python tools/check_wheel.py dist/kwire-*.whl $(ARGS); done

release-notes: env-dev ## print what is new in this version, which TAG=v0.1.0 must name
	@$(VENV_PYTHON) tools/release_notes.py $(TAG)

workflows: env-release ## check .github/workflows with actionlint (which Go builds once) and zizmor
	build/release/bin/python -m tools.workflows

image-compose: env-dev ## build the image with buildah, and run public compose files and Testcontainers' scripts in it (as root): BASE_IMAGE
	KWIRE_BASE_IMAGE='$(BASE_IMAGE)' $(VENV_PYTHON) -m pytest -s --timeout 3600 tests/docker/test_public_compose.py

docs: env-dev ## these pages as a site, which needs no server, into build/site
	$(VENV_PYTHON) -m tools.website $(ARGS)

docs-pictures: env-dev ## the pictures in docs/pictures: kwire top, and the page of an audit (needs Java)
	KWIRE_DOCS_PICTURES=1 $(VENV_PYTHON) -m pytest tests/website/test_pictures.py

image: ## build the container image with docker, podman or buildah: BASE_IMAGE, IMAGE
	BASE_IMAGE='$(BASE_IMAGE)' IMAGE='$(IMAGE)' docker/build

kubernetes: env-dev ## the chart and the manifests of docker/kubernetes, checked by Helm and by Kubernetes' API description (needs Go)
	$(VENV_PYTHON) -m tools.kubernetes

env:
	@$(if $(PYTHON),,echo 'kwire needs Python 3.11 or newer on PATH' >&2; exit 1;) \
	$(PYTHON) tools/environment.py run

env-dev:
	@$(if $(PYTHON),,echo 'kwire needs Python 3.11 or newer on PATH' >&2; exit 1;) \
	$(PYTHON) tools/environment.py dev

env-release:
	@$(if $(PYTHON),,echo 'kwire needs Python 3.11 or newer on PATH' >&2; exit 1;) \
	$(PYTHON) tools/environment.py release

lock: ## resolve the third-party versions anew (ARGS=--upgrade takes the newest)
	@$(PYTHON) tools/lock.py $(ARGS)

clean: ## remove what is built, except the environment and the broker's data
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
