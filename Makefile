# Everything starts here: `make help` lists what there is.
# Needs make, Python 3.11 or newer and its venv module; all else is installed into .venv.

PYTHON   ?= python3
SCENARIO ?= scenarios/frontier-1t.yaml
JOBS     ?= 2
PYTEST   ?=
BENCH    ?=
OTHERS   ?=

VENV  := .venv
BIN   := $(VENV)/bin
LOCK  := requirements/dev.lock
STAMP := $(VENV)/.installed
PIP   := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet

# pytest rewrites the tests for its messages, which takes 4 s where Python may write no bytecode.
TESTED := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

REPORT := $(CURDIR)/runs/$(basename $(notdir $(SCENARIO)))

.DEFAULT_GOAL := help
.PHONY: help setup run validate validation bench docs test test-large test-exhaustive lint format types wheel-test lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: PYTHON=$(PYTHON) SCENARIO=$(SCENARIO) JOBS=$(JOBS) PYTEST='arguments for pytest' BENCH='arguments for benchmarks' OTHERS='further Pythons for the wheel'"

setup: $(STAMP) ## install the pinned environment into .venv (the other targets do it when needed)

run: $(STAMP) ## run one scenario with its figures and print where its report is
	@$(BIN)/clustersim run "$(SCENARIO)" --figures png
	@test -f "$(REPORT)/report.html" || { echo "make: the run left no report in $(REPORT)" >&2; exit 1; }
	@echo "report: $(REPORT)/report.html"

validate: $(STAMP) ## predict every measured case and print the errors
	@$(BIN)/clustersim validate

validation: $(STAMP) ## write docs/validation and prediction-interval data
	@$(BIN)/python -m tools.validation --jobs $(JOBS) --pages docs/validation \
		--intervals validation/prediction_intervals.yaml

bench: $(STAMP) ## measure speed: docs/performance.md and runs/bench.json (BENCH='PART ...' prints some)
	@$(BIN)/python -m benchmarks $(if $(BENCH),$(BENCH),--json runs/bench.json --markdown docs/performance.md)

# Without --quiet, with which mkdocs counts no warning.
docs: $(STAMP) ## build the site of the documentation into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "site: $(CURDIR)/build/site/index.html"

test: $(STAMP) ## run the tests, except those marked large
	@$(TESTED) -m "not large" $(PYTEST)

test-large: $(STAMP) ## run the tests marked large, except further random cases
	@$(TESTED) tests -m "large and not exhaustive" $(PYTEST)

test-exhaustive: $(STAMP) ## run the further random cases of large tests: half an hour
	@$(TESTED) -m exhaustive $(PYTEST)

lint: $(STAMP) ## check style and formatting
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

format: $(STAMP) ## apply what lint can mend by itself
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

types: $(STAMP) ## check types
	@$(BIN)/python -m mypy

wheel-test: $(STAMP) ## build the wheel, install it alone, run a shipped scenario from elsewhere
	@.ci/wheel-test $(BIN)/python $(OTHERS)

lock: ## choose new versions within the ranges of pyproject.toml
	@rm -rf build/lock
	@$(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip --disable-pip-version-check --quiet --quiet install pip-tools
	@CUSTOM_COMPILE_COMMAND='make lock' build/lock/bin/pip-compile --quiet --upgrade --extra=dev \
		--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file=$(LOCK) pyproject.toml
	@rm -rf build/lock

clean: ## remove the environment, caches and build outputs (runs/ stays)
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find clustersim tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# Redone when the project file or the lock changes. The stamp comes last, so that an interrupted
# installation is started again.  pip compiles the packages that it installs, but not one that is
# editable: where Python may write no bytecode, each command would compile it, in 0.13 s.
$(STAMP): pyproject.toml $(LOCK)
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "make: $(PYTHON) not found: install Python 3.11 or newer, or say make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $(PYTHON) is older than 3.11: say make PYTHON=python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "make: $(PYTHON) has no venv: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing into $(VENV)"
	@"$(PYTHON)" -m venv $(VENV)
	@$(PIP) install --requirement $(LOCK)
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q clustersim
	@$(BIN)/python -m pip --disable-pip-version-check check >/dev/null || \
		{ $(BIN)/python -m pip --disable-pip-version-check check; exit 1; }
	@touch $@
