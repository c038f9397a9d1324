# Everything is set up in .venv from Python 3.11 alone; the first target that needs it builds it.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip --quiet --disable-pip-version-check
DEMO := demo-out
# Compiled modules are kept, also where the environment says otherwise: the tests start the command hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test corpus collection thorough check bench calibration comparison docs figures screenshots clean

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/ready: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) install --upgrade "pip>=25.1"
	$(BIN)/python $(PIP) install --editable .
	@touch $@

# Without compiling every module of every package: what is imported is compiled then, and kept.
$(VENV)/dev-ready: $(VENV)/ready
	$(BIN)/python $(PIP) install --no-compile --editable ".[agency,databases,files,frames,postgresql,pseudonyms,spark,studio,synthetic]" --group dev --group docs --group experiments
	@touch $@

# pycanon pins its own pandas and NumPy, so it lives apart; tests ask it through a subprocess.
.venv-pycanon/ready: Makefile
	$(PYTHON) -m venv .venv-pycanon
	.venv-pycanon/bin/python $(PIP) install --no-compile "pycanon==1.3.6"
	@touch $@

# Attacks of others to hold ours against, apart for the same reason.
.venv-anonymeter/ready: Makefile
	$(PYTHON) -m venv .venv-anonymeter
	.venv-anonymeter/bin/python $(PIP) install "anonymeter==1.1.0"
	@touch $@

# Weka's own J48 for the slicing page, where Java is present; only weka.jar is taken from the package.
.venv-weka/ready: Makefile
	$(PYTHON) -m venv .venv-weka
	.venv-weka/bin/python $(PIP) install --no-deps "python-weka-wrapper3==0.3.3"
	@touch $@

$(VENV)/warm: $(VENV)/ready
	$(BIN)/shoal warm
	@touch $@

demo: $(VENV)/warm ## compile, generate hospital stays, draft a policy, audit, anonymize, verify
	rm -rf $(DEMO)
	$(BIN)/shoal demo --out $(DEMO)

test: check corpus collection .venv-pycanon/ready ## lint, types, all tests; SHOAL_NO_SKIP=1 turns skips into failures
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --ignore tests/corpus

# Releases of every kind, first and alone: they compile nearly all kernels, which workers would otherwise do three times.
corpus: $(VENV)/dev-ready
	$(BIN)/python -m pytest --quiet tests/corpus

# Modules of tests are rewritten and kept, beside the corpus where there is a second core: each worker would do so.
collection: $(VENV)/dev-ready
	@$(BIN)/python -m pytest --collect-only -qqq > /dev/null || true  # what is wrong, the tests tell

thorough: $(VENV)/dev-ready .venv-anonymeter/ready .venv-weka/ready ## the long tests of promises that shorter ones hold too, and more repetitions
	$(BIN)/python -m pytest -m thorough
	$(BIN)/python -m pytest -m "hypothesis and not thorough" --hypothesis-profile thorough
	SHOAL_THOROUGH=1 $(BIN)/python -m pytest tests/agency/service/test_serve_kills.py tests/agency/service/test_serve_bodies.py

check: $(VENV)/dev-ready ## ruff, mypy, who may import whom, limits of size and prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tests/architecture.py
	$(BIN)/python tests/prose.py

# A peer for the benchmarks, apart for the same reason.
.venv-peers/ready: Makefile
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python $(PIP) install "anonypy==0.2.1" "pandas<3"
	@touch $@

bench: $(VENV)/dev-ready .venv-peers/ready ## measure; results as JSON in bench/results, the tables in docs/benchmarks.md and bench/results
	$(BIN)/python -m bench

comparison: $(VENV)/dev-ready ## all techniques side by side on Adult and the demo data: docs/comparison.md and tables in experiments/results, made again
	SHOAL_DATA=$${SHOAL_DATA:-../shared/data} $(BIN)/python -m experiments.comparison_pages docs

calibration: $(VENV)/dev-ready .venv-anonymeter/ready ## how often attacks find known exposures: the tables in experiments/results/attacks.md, made again (an hour)
	$(BIN)/python -m experiments calibration --docs docs

figures: $(VENV)/dev-ready .venv-weka/ready ## the source papers' experiments run again: their plots in docs and tables in experiments/results, made again (an hour)
	@for paper in tau-l slicing l-delta; do \
		SHOAL_DATA=$${SHOAL_DATA:-../shared/data} $(BIN)/python -m experiments $$paper --docs docs || exit; \
	done

docs: $(VENV)/dev-ready ## the documentation site in site/, with search that works without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

screenshots: $(VENV)/dev-ready ## pictures of the studio for docs, made anew
	$(BIN)/python -m bench.screenshots

clean: ## remove environments and caches
	rm -rf site .venv .venv-anonymeter .venv-pycanon .venv-peers .venv-weka $(DEMO) .mypy_cache .pytest_cache .ruff_cache .hypothesis
