# From a fresh clone, with Python >= 3.11, pip and make:
#
#   make odebench    install into .venv, then run the benchmark on the 61 ODEBench systems
#   make test        install the test tools too, then run the test suite (make test-slow: what takes minutes)
#   make plugins     install the comparators of plugins/ into .venv-plugins (make plugins-test: test them too)
#   make results     run every benchmark whose tables are committed (hours; resumable)
#   make docs        build the site into docs/_build/html (make test-browser: open pages in Chromium)
#   make dist        build and check the wheel and the source distribution in dist/
#   make test-lowest test with the lowest versions of the dependencies that are allowed
#   make pysindy-notebooks DIR=...  run pysindy's feature overview and tutorials with `sindy` in its place
#   make pysindy-tests    run pysindy's own tests with `sindy` in place of its class, in .venv-pysindy
#
# Where a bare `torch` would bring gigabytes of GPU libraries (PyPI on Linux), name a source of its CPU build:
#
#   make test TORCH_INDEX=https://download.pytorch.org/whl/cpu
#
# Other variables: PYTHON (the interpreter that makes the environment), VENV (where it goes), WORKERS (test
# processes), ARGS (handed to the benchmark or to pytest, e.g. ARGS="--limit 3" or ARGS="tests/test_field.py"),
# PLUGINS (which of them, e.g. PLUGINS="edmd npode"), PLUGINS_VENV (where they go).

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
TORCH_INDEX ?=
ARGS ?=
PLUGINS_VENV ?= .venv-plugins
PYSINDY_VENV ?= .venv-pysindy
DOCS_VENV ?= .venv-docs
DIST_VENV ?= .venv-dist
LOWEST_VENV ?= .venv-lowest
PLUGINS ?= $(filter-out common,$(patsubst plugins/%/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml)))

PY := $(VENV)/bin/python
PIP_OPTIONS = --quiet --no-compile -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
PIP_INSTALL = $(PY) -m pip install $(PIP_OPTIONS)
PLUGINS_PIP_INSTALL = $(PLUGINS_VENV)/bin/python -m pip install $(PIP_OPTIONS) -c plugins/constraints.txt

# Small dense problems run fastest on one thread a process; the processes share the cores.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
# pip compiles nothing (--no-compile): Python keeps the bytecode of what is imported, a small part of all.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: results pysindy-notebooks pysindy-equality help odebench speed test test-slow test-browser test-lowest docs dist plugins plugins-test pysindy-tests lint format picture install install-test clean
.NOTPARALLEL:

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -n 17

odebench: install
	$(PY) -m benchmarks.odebench $(ARGS)

speed: install
	$(PY) -m benchmarks.speed $(ARGS)

# Every committed table with today's versions, in one order; goes on where it was interrupted (ARGS="--dry-run" lists it).
results: install
	$(PY) -m benchmarks.results $(ARGS)

test: install-test
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --durations 30 $(ARGS)

# Pages are opened in Chromium (Debian: apt-get install chromium; elsewhere CHROMIUM=/path/to/it).
test-browser: install-test
	$(PY) -m pytest -m browser $(ARGS)

test-slow: install-test
	$(PY) -m pytest -m slow $(ARGS)

plugins: $(PLUGINS:%=$(PLUGINS_VENV)/.installed-%)

plugins-test: plugins
	$(PLUGINS_VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --durations 10 \
		plugins/common/tests $(PLUGINS:%=plugins/%/tests) $(ARGS)

# The site, in docs/_build/html: built offline, notebooks executed, warnings are errors (NOTEBOOKS=off: text alone).
docs: $(DOCS_VENV)/.installed
	$(DOCS_VENV)/bin/python -m sphinx -b html -W --keep-going docs docs/_build/html
	$(DOCS_VENV)/bin/python docs/check_links.py docs/_build/html
	$(DOCS_VENV)/bin/python docs/check_search.py docs/_build/html

$(DOCS_VENV)/.installed: pyproject.toml constraints.txt docs/constraints.txt
	$(NEW_ENOUGH)
	test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install $(PIP_OPTIONS) -c docs/constraints.txt -e ".[docs,torch]"
	@touch $@

# What is uploaded: built anew, with machine code for this Python, and its description checked as the index does.
dist: install
	rm -rf fim_dynsys/regression/kernels/built
	$(PY) -m fim_dynsys.commands.building
	test -x $(DIST_VENV)/bin/python || $(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip install --quiet build twine "setuptools>=77" wheel
	rm -rf dist
	$(DIST_VENV)/bin/python -m build --no-isolation
	$(DIST_VENV)/bin/python -m twine check --strict dist/*

# The quick tests of what the dependencies are used for.
LOWEST ?= tests/test_files.py tests/models/test_forecasting.py tests/plot tests/test_many.py \
	tests/models/test_sindy.py tests/test_golden.py tests/test_report.py
test-lowest: $(LOWEST_VENV)/.installed
	$(LOWEST_VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile $(LOWEST) $(ARGS)

$(LOWEST_VENV)/.installed: pyproject.toml tests/lowest_versions.py
	$(NEW_ENOUGH)
	test -x $(LOWEST_VENV)/bin/python || $(PYTHON) -m venv $(LOWEST_VENV)
	$(PYTHON) tests/lowest_versions.py > $(LOWEST_VENV)/constraints.txt
	$(LOWEST_VENV)/bin/python -m pip install --quiet -c $(LOWEST_VENV)/constraints.txt \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -e ".[test,torch]"
	@touch $@

lint: install-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q -m lint tests/test_typing.py
	$(PY) docs/check_prose.py

format: install-test
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

picture: install
	$(PY) docs/make_picture.py

install: $(VENV)/.installed
install-test: $(VENV)/.installed-test

NEW_ENOUGH = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fim-dynsys needs Python 3.11 or newer: set PYTHON=")'

# Stamps: a second call installs nothing unless the dependencies have changed. Machine code is made while packages that
# it does not need are installed; that for "equations", half a minute of compiling, for tests and the wheel alone.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(NEW_ENOUGH)
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) setuptools wheel
	$(PIP_INSTALL) --no-build-isolation -e .
	$(PY) -m fim_dynsys.commands.building fim-ode sindy-strong symbolic auto & building=$$!; \
	$(PIP_INSTALL) --no-build-isolation -e ".[torch]" && wait $$building
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PY) -m fim_dynsys.commands.building & building=$$!; \
	$(PIP_INSTALL) --no-build-isolation -e ".[test,torch]" && wait $$building
	@touch $@

$(PLUGINS_VENV)/.installed: pyproject.toml constraints.txt plugins/constraints.txt plugins/common/pyproject.toml
	$(NEW_ENOUGH)
	test -x $(PLUGINS_VENV)/bin/python || $(PYTHON) -m venv $(PLUGINS_VENV)
	$(PLUGINS_PIP_INSTALL) setuptools wheel
	$(PLUGINS_PIP_INSTALL) --no-build-isolation pytest pytest-xdist -e ".[torch]" -e plugins/common
	@touch $@

$(PLUGINS_VENV)/.installed-%: plugins/%/pyproject.toml $(PLUGINS_VENV)/.installed
	$(PLUGINS_PIP_INSTALL) --no-build-isolation -e "plugins/$*[test]"
	@touch $@

# Its authors' package asks for an old sympy, and with it for an old torch, that it does not need.
$(PLUGINS_VENV)/.installed-odeformer: plugins/odeformer/pyproject.toml $(PLUGINS_VENV)/.installed
	$(PLUGINS_PIP_INSTALL) --no-build-isolation -e "plugins/odeformer[test]"
	$(PLUGINS_PIP_INSTALL) --no-build-isolation --no-deps odeformer
	@touch $@

$(PLUGINS_VENV)/.installed-gp-dnf: $(PLUGINS_VENV)/.installed-gpode

# pysindy's tests want an older pytest, and packages that nothing here needs.
pysindy-tests: $(PYSINDY_VENV)/.installed
	$(PYSINDY_VENV)/bin/python -m tests.pysindy_release $(ARGS)

pysindy-notebooks: $(PYSINDY_VENV)/.installed
	$(PYSINDY_VENV)/bin/python -m tests.pysindy_release.notebooks $(DIR) $(ARGS)

# Ours beside stock pysindy in every optimizer, library and differentiation: differences have to be zero.
pysindy-equality: $(PYSINDY_VENV)/.installed
	$(PYSINDY_VENV)/bin/python -m tests.pysindy_release.equality $(ARGS)

$(PYSINDY_VENV)/.installed: pyproject.toml constraints.txt
	$(NEW_ENOUGH)
	test -x $(PYSINDY_VENV)/bin/python || $(PYTHON) -m venv $(PYSINDY_VENV)
	grep -v "^pytest" constraints.txt > $(PYSINDY_VENV)/constraints.txt
	$(PYSINDY_VENV)/bin/python -m pip install --quiet -c $(PYSINDY_VENV)/constraints.txt \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
		"pytest<8" pytest-lazy-fixture cvxpy "jax[cpu]" diffrax -e ".[torch]"
	@touch $@

clean:
	rm -rf $(VENV) $(PLUGINS_VENV) $(PYSINDY_VENV) $(DOCS_VENV) $(DIST_VENV) $(LOWEST_VENV) docs/_build docs/api/generated .pysindy-release build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
