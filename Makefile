# make setup | demo | test | test-slow | lint | wheel | bench | clean
# Everything happens in .venv, which is made on first use; VENV=... or PYTHON=... choose others.

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: setup demo test test-slow lint wheel bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml setup.py
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found: install one, or name it with PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plot,dev]'
	@touch $@

demo: setup
	$(BIN)/fabric-plan place --strategy MP3-DP3-PP2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest --numprocesses $(JOBS) --quiet
	$(BIN)/python tests/check_wheel.py

test-slow: setup
	$(BIN)/pytest --numprocesses $(JOBS) --quiet -m slow

wheel: setup
	$(BIN)/python -m build --outdir dist .

bench: setup
	$(BIN)/python results/placement.py
	$(BIN)/python results/simulator.py
	$(BIN)/python results/routing.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
