# PYTHON chooses the interpreter of a new environment: `make clean`, then `PYTHON=python3.13 make setup`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Runtime and tools are installed in two steps under one set of pins, so that `make demo` is quick on a fresh machine.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint requirements-dev.txt

# The pyright wheel carries pyright and the nodejs wheel carries Node.js; this stops it from asking for news as well.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench coverage-map clean

help: ## show the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '%-18s %s\n' "$$target" "$$what"; done

setup: $(VENV)/.tools ## make .venv: the project, editable, and its development tools

demo: $(VENV)/.runtime ## see a run killed and carried on; needs no key
	@$(BIN)/clew demo

test: check ## run every check, then every test
	@$(BIN)/python -m pytest --claims .claims.json --numprocesses auto --dist worksteal

check: $(VENV)/.tools ## formatting, lint, types, import rules
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.tools ## the quick benchmarks; benchmarks/README.md has the full ones
	$(BIN)/python -m benchmarks.append --quick
	$(BIN)/python -m benchmarks.actors --quick
	$(BIN)/python -m benchmarks.journal --quick

coverage-map: $(VENV)/.tools ## which requirements and scenarios the passing tests claim
	@$(BIN)/python -m scripts.coverage_map

clean: ## remove all that these targets made
	rm -rf $(VENV) .types .claims.json .hypothesis .pytest_cache .ruff_cache .import_linter_cache build clew.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.runtime: pyproject.toml requirements-dev.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the project"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.tools: $(VENV)/.runtime
	@echo "installing the development tools"
	@$(INSTALL) --editable ".[encryption,mcp,otel,skills,web]" --requirement requirements-dev.txt
	@mkdir -p .types/clew
	@for package in journal projections actors adapters examples; do ln -sfn ../../$$package .types/clew/$$package; done
	@touch $@
