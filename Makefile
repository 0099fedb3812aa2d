# One environment for everything, made on first use. Needs Python 3.11 or newer and make. To try
# another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV := .venv
TESTS :=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test slow lint types check clean

demo: $(STAMP)
	$(BIN)/starlings demo --output output/demo

test: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadfile $(TESTS)

slow: $(STAMP)
	$(BIN)/pytest -m slow -n 2 --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

check: lint types test slow

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "starlings needs Python 3.11 or newer; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .venv-* output build dist
