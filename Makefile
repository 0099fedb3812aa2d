# One environment for everything, made on first use. Needs Python 3.11 or newer and make. To try
# another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV := .venv
TESTS :=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo rehearsal test slow thorough lint types check docs clean

demo: $(STAMP)
	$(BIN)/starlings demo --output output/demo

# Six organisations on one machine: certificates, a relay, delay, and processes that are killed.
rehearsal: $(STAMP)
	$(BIN)/python -m starlings.research.rehearsal

# The quick suite: every kind of test, in about four minutes on two cores. The first run compiles
# everything, and takes longer.
test: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal $(TESTS)

# What the quick suite leaves out.
slow: $(STAMP)
	$(BIN)/pytest -m "slow and not thorough" -n 2 --dist worksteal $(TESTS)

# For those who change a sampler or the contract: CI leaves these out.
thorough: $(STAMP)
	$(BIN)/pytest -m thorough -n 2 --dist worksteal $(TESTS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

check: lint types test slow thorough

# Nothing is fetched but the packages. A warning, such as of a dead link or of an example that
# fails, is an error.
docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -q -E -W --keep-going -n -b html -d build/doctrees docs build/docs
	@echo "The documentation is in build/docs/index.html"

$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "starlings needs Python 3.11 or newer; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .venv-* .jax-cache output build dist
