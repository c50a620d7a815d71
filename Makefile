# mainspring.  `make` alone prints this help.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= $(shell bash .ci/find-python)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/.stamps

export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: help setup ext ext-debug demo test test-faults simulate check bench clean lock dist

help: ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMPS)/installed ## virtual environment, locked dependencies, compiled extensions

$(STAMPS)/venv:
	@bash .ci/preflight $(PYTHON)
	@$(PYTHON) -m venv --clear $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/locked: $(STAMPS)/venv requirements.lock
	@echo "installing locked dependencies into $(VENV) (some minutes, the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(STAMPS)/installed: $(STAMPS)/locked pyproject.toml setup.py $(wildcard ext/mainspring/*.pyx ext/mainspring/*.pxd)
	@echo "compiling extensions"
	@flock $(VENV)/.build-lock $(BIN)/python setup.py --quiet build_ext --inplace --parallel 2
	@MAINSPRING_SKIP_EXTENSIONS=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation -e .
	@touch $@

ext: ## compile the extensions in place (release)
	@flock $(VENV)/.build-lock $(BIN)/python setup.py --quiet build_ext --inplace --parallel 2

ext-debug: ## compile the extensions in place with bounds checks and annotated HTML
	@MAINSPRING_DEBUG=1 flock $(VENV)/.build-lock $(BIN)/python setup.py --quiet build_ext --inplace --parallel 2

demo: setup ## the main job on an embedded Postgres; ends by itself with a table
	@$(BIN)/mainspring demo

test: setup ## the whole suite, without root or extra servers
	@$(BIN)/python -m pytest tests -q -p no:benchmark -n 3 --dist worksteal

test-faults: setup ## real processes killed, stopped and cut off during bursts, with a table
	@$(BIN)/python -m pytest tests/faults -q -p no:benchmark -m faults -n 3 --dist worksteal \
	  -o faulthandler_timeout=0

simulate: setup ## a campaign of the simulator: SEEDS (1000) from FIRST (0)
	@MAINSPRING_SIMULATION_SEEDS=$(or $(SEEDS),1000) MAINSPRING_SIMULATION_FIRST=$(or $(FIRST),0) \
	  $(BIN)/python -m pytest tests/simulation/test_simulation.py -q -k promise

check: setup ## linters, formatter, types, import rules, spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/cython-lint ext/mainspring
	@$(BIN)/lint-imports
	@$(BIN)/codespell engine api ext bench tests docs setup.py *.md Makefile

bench: setup ## micro benchmarks, for real (smoke sizes of them run inside the tests)
	@$(BIN)/python -m pytest bench -q --benchmark-only

dist: setup ## sdist and wheel into dist/
	@$(BIN)/python -m build --no-isolation --outdir dist .

lock: $(STAMPS)/venv ## resolve requirements.lock anew from pyproject.toml
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --group dev --extra pg --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --quiet --upgrade -o requirements.lock

clean: ## remove everything that was built
	@rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis engine/*.egg-info *.egg-info
	@find engine api tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -f engine/mainspring/*.so
