# Everything is set up in .venv from Python 3.11 alone; the first target that needs it builds it.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[frames]" --group dev
	@touch $@
