# Every command sets up what it needs in .venv, from a bare Python >= 3.11 with pip:
#
#   make demo         train on real data beside scikit-learn and draw the learning curve
#   make test         what a change should pass, in five to eight minutes on two cores
#   make test-all     the rest: CUDA kernels of all architectures, whole suites, examples, campaign
#   make test-newest  some of them with newer Pythons and NumPy, in .venv-3.12 and so on
#   make conformance  scikit-learn's own tests on these estimators, as a table
#   make docs         the documentation site, in docs/_build/html, and the code on its pages
#   make lint         format, lint, types and workflows
#   make library      compile the CPU's kernels into the checkout, as the wheel for this system has them
#   make wheels       that wheel and one for every machine, in dist/
#   make bench        all measurements of benchmarks/RESULTS.md
#   make gpu-check    tests and measurements on this machine's NVIDIA GPU, in thirteen minutes;
#                     ARGS="--part fit --resume" hands options on
#   make clean        remove .venv, .venv-3.* and everything built
#
# PYTHON=python3.12 chooses the interpreter of .venv. PY=python3 uses an environment that has
# everything already, and sets up nothing.

SHELL := /bin/bash
VENV := .venv
PYTHON :=
LOGS := .cache

ifeq ($(origin PY),command line)
ready =
else
PY := $(VENV)/bin/python
ready = $(VENV)/.ready-$(1)
endif

# The extra that fits the driver; nothing of CUDA is installed for `gpu-check` without one.
CUDA_EXTRA = $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9]*\).*/,cuda\1/p')

.PHONY: demo test test-all conformance docs lint types library wheels bench gpu-check clean
.DELETE_ON_ERROR:

demo: $(call ready,viz)
	$(PY) -m gpuens.demo

bench: $(call ready,bench)
	$(PY) -m benchmarks all

gpu-check: $(call ready,xgboost-cuda)
	$(PY) -m benchmarks gpu_check $(ARGS)

# Runs every example of the pages and compares what it prints; tests leave it to `make docs`.
PAGES := tests/front/test_documentation.py

# -n: names that refer to nothing are errors, as all warnings are. Pages are written in parallel,
# examples of the gallery run one after the other.
docs: $(call ready,docs) $(call ready,test)
	$(PY) -m sphinx -b html -n -W --keep-going -j auto docs docs/_build/html
	$(PY) -m pytest $(PAGES)
	@echo "The site: docs/_build/html/index.html"

# Everything is compiled once for each level of processors, by two processes, and for all levels at
# the same time: five minutes on two cores. It needs a C compiler, on Linux, macOS (Apple's) or
# Windows (MinGW-w64's).
# ARGS="--levels x86-64-v3" builds for one level, ARGS=--try fits models with the wheel in an environment
# of its own.
library: $(call ready,test)
	$(PY) -m building library --if-needed $(ARGS)

wheels: $(call ready,dev) $(call ready,test)
	$(PY) -m building wheels --if-needed $(ARGS)

lint: types
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@actionlint=$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("scripts"))')/actionlint; \
	if [ -x "$$actionlint" ]; then "$$actionlint" .github/workflows/*.yml && echo "actionlint: nothing found"; \
	else echo "Not checked by actionlint: it is not installed"; [ -z "$$CI" ]; fi

# mypy does not follow gpuens/kernels/__init__.py to kernels/: it gets a folder of links in which
# kernels/ is inside gpuens, as in a wheel.
TYPED := $(LOGS)/types
types: $(call ready,dev)
	@rm -rf $(TYPED) && mkdir -p $(TYPED)/gpuens
	@ln -s $(filter-out %/kernels,$(wildcard $(CURDIR)/gpuens/*)) $(CURDIR)/kernels $(TYPED)/gpuens
	cd $(TYPED) && $(if $(findstring /,$(PY)),$(abspath $(PY)),$(PY)) -m mypy \
	  --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache

# Groups of tests run side by side, two at a time, the longest first; each prints its result when it
# ends, after its log if it failed. `quick-GROUP` leaves out what is marked as slow, `slow-GROUP` runs
# only that, `whole-GROUP` runs both.
#
# The kernels for GPUs run as compiled PTX on a machine in `tests/ptx`, where one process compiles each
# of them once for all of its tests: the group `slice` for one architecture the kernels that all
# boosting is made of, `ptx` all of them. The simulator needs a process of its own, because Numba
# decides on import whether CUDA is simulated. `rest` is all that is in no other group, with the
# examples in docstrings: it and `boosting` take the longest, and about as long as each other.
ON_GPU := models_on_gpu large_tables_on_gpu several_gpus
WITH_PTX := $(ON_GPU:%=tests/gpu/test_%.py) tests/ptx tests/cuda_ptx tests/cuda_compile tests/kernels
FRONT := tests/front tests/command
KERNELS := tests/kernels tests/gpu
BOOSTING := tests/boosting tests/losses tests/cluster tests/tuning tests/conformal
MEMBERS := tests/stagewise tests/adaboost tests/bagging tests/combining
CHECKS := tests/conformance/test_inputs.py tests/conformance/test_sklearn_checks.py
PROGRAMS := tests/benchmarks
SUITES := tests/conformance tests/campaign tests/driver
ELSEWHERE := $(FRONT) $(KERNELS) $(BOOSTING) $(MEMBERS) $(PROGRAMS) $(SUITES) tests/ptx tests/cuda_ptx \
	tests/cuda_compile tests/cuda_sim
TESTS_slice := --ptx --ptx-arch=9.0 -k "cuda or compiler" tests/cuda_compile/test_compiler.py \
	tests/kernels/growth/test_split_rules.py tests/kernels/leaves tests/kernels/statistics
TESTS_ptx := --ptx -k "cuda or ptx or gpu" $(WITH_PTX)
TESTS_front := $(FRONT) --ignore=$(PAGES)
TESTS_kernels := $(KERNELS)
TESTS_boosting := $(BOOSTING)
TESTS_members := $(MEMBERS) $(CHECKS)
TESTS_programs := $(PROGRAMS)
TESTS_suites := $(SUITES) $(CHECKS:%=--ignore=%)
TESTS_rest := $(ELSEWHERE:%=--ignore=%)
TESTS_simulator := tests/cuda_sim
QUICK := $(addprefix quick-,slice rest boosting members kernels front)
REST := whole-ptx whole-programs whole-suites $(addprefix slow-,boosting kernels rest front \
	members) whole-simulator
$(QUICK) $(filter slow-%,$(REST)): MARKED = -m "$(if $(filter quick-%,$@),not )slow"
whole-simulator: export NUMBA_ENABLE_CUDASIM = 1
# Threads of OpenMP, in the libraries that are compared with, sleep while they wait: by default they
# spin, and take the processors from what runs beside them.
docs $(QUICK) $(REST): export OMP_WAIT_POLICY = passive

test: $(call ready,test)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(QUICK)

test-all: $(call ready,test)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(REST)

# Where there is a C compiler all tests run from one library, rather than compile for themselves. It
# is built, by two processes, beside the group that needs it least.
$(filter-out quick-slice,$(QUICK)): compiled-for-tests
compiled-for-tests:
	@$(PY) -m building library --if-needed $(BEST) || echo "Tests compile what they need."

BEST := $(if $(filter x86_64,$(shell uname -m)),--levels x86-64-v3)
.PHONY: $(QUICK) $(REST) compiled-for-tests
$(QUICK) $(REST):
	@mkdir -p $(LOGS); export NUMBA_CACHE_DIR=$(CURDIR)/$(LOGS)/kernels; log=$(LOGS)/test-$@.log; \
	echo "Tests of $@: begun"; \
	if $(PY) -m pytest $(MARKED) $(TESTS_$(lastword $(subst -, ,$@))) >$$log 2>&1; \
	then echo "Tests of $@: $$(tail -n 1 $$log)"; \
	else cat $$log; echo "Tests of $@: failed, see above or $$log"; exit 1; fi

# Every Python on PATH or of pyenv that is newer than that of .venv runs quick tests of the CPU. The
# newest has the newest packages that the extra for GPUs resolves to as well: its compiler must work,
# and kernels that it compiles for a GPU must pass as PTX.
NEWER := 3.14 3.13 3.12
NEWER_TESTS := tests/front/test_first_models.py tests/front/test_identity.py \
	tests/boosting/test_loop.py tests/saving
NEWEST_TESTS := --ptx --ptx-arch=9.0 -k "cuda or compiler or first_models" \
	tests/cuda_compile/test_compiler.py tests/kernels/leaves tests/kernels/statistics \
	tests/front/test_first_models.py

test-newest: $(VENV)/bin/python
	@newest=yes; for version in $(NEWER); do \
	  [ $$version != "$$($(VENV)/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ] \
	    || break; \
	  for found in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python3; do \
	    if $$found -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	      $(MAKE) --no-print-directory test-$$version FOUND=$$found NEWEST=$$newest || exit 1; \
	      newest=; break; \
	    fi; \
	  done; \
	done; \
	[ -z "$$newest" ] || echo "Tests of newest: skipped, no Python is newer than that of $(VENV)"

.PHONY: test-newest $(NEWER:%=test-%)
$(NEWER:%=test-%): test-%: .venv-%/.ready
	@echo "Tests of Python $*: begun, $$(.venv-$*/bin/python -c 'import numpy, platform; \
	  print("Python", platform.python_version(), "NumPy", numpy.__version__)')"
	OMP_WAIT_POLICY=passive NUMBA_CACHE_DIR=$(CURDIR)/$(LOGS)/kernels-$* \
	  .venv-$*/bin/python -m pytest -q -m "not slow" $(NEWER_TESTS)
	$(if $(NEWEST),OMP_WAIT_POLICY=passive NUMBA_CACHE_DIR=$(CURDIR)/$(LOGS)/kernels-$* \
	  .venv-$*/bin/python -m pytest -q $(NEWEST_TESTS))

.venv-%/.ready: pyproject.toml
	[ -x .venv-$*/bin/python ] || $(FOUND) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable ".$(if $(NEWEST),[cuda13])" pytest hypothesis array-api-strict pandas polars pyarrow
	@touch $@

conformance: $(call ready,test)
	@$(PY) -m tests.conformance

clean:
	rm -rf $(VENV) $(NEWER:%=.venv-%) $(LOGS) build dist kernels/prebuilt docs/_build docs/gallery docs/api/generated *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The wheel of XGBoost with CUDA takes the place of the one without, where there is a driver.
$(VENV)/.ready-xgboost-cuda: $(VENV)/.ready-gpu
	@if [ -n "$(CUDA_EXTRA)" ]; then \
	  $(VENV)/bin/python -m pip uninstall --quiet --yes xgboost-cpu && \
	  $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check xgboost; \
	fi
	@touch $@

$(VENV)/.ready-gpu: EXTRAS = test,bench$(CUDA_EXTRA)
$(VENV)/.ready-%: EXTRAS = $*
$(VENV)/.ready-%: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	@touch $@

$(VENV)/bin/python:
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	      >/dev/null 2>&1; then \
	    echo "Setting up $(VENV) with $$($$python --version) ($$python)"; \
	    exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "No Python 3.11 or newer with pip and venv was found. Install one (Debian and Ubuntu:" >&2; \
	echo "apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3.12" >&2; \
	exit 1
