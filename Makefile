# Every target sets up what it needs: a virtual environment in .venv, made with $(PYTHON).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint format bench paper docs clean

demo: $(VENV)/.demo
	$(BIN)/momentopic demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks stages
	$(BIN)/python -m benchmarks fit
	$(BIN)/python -m benchmarks scale
	$(BIN)/python -m benchmarks transform
	$(BIN)/python -m benchmarks cluster
	$(BIN)/python -m benchmarks recovery
	$(BIN)/python -m benchmarks quality

paper: $(VENV)/.paper
	$(BIN)/python -m experiments all --jobs 2

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "momentopic needs Python 3.11 or later: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.%: pyproject.toml | $(VENV)/bin/python
	$(PIP_INSTALL) -e '.[$*]'
	@touch $@
