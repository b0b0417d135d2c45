# Everything runs in .venv. `make install` puts burn into it; `make develop` also what tests and lint need (PyTorch among it).
# Needs Python 3.11 and a C and C++ compiler; cmake and ninja are PyPI wheels.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
BUILD_TOOLS := scikit-build-core nanobind numpy cmake ninja
NATIVE := CMakeLists.txt pyproject.toml constraints.txt $(wildcard burn/runtime/native/*)

.PHONY: install develop constraints demo test lint format bench clean

# Editable: Python changes take effect at once, and a change of the native code rebuilds it at the next `make`.
install: .venv/installed

.venv/tools: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) $(BUILD_TOOLS)
	touch $@

.venv/installed: .venv/tools $(NATIVE)
	$(PIP) --no-build-isolation --editable .
	touch $@

develop: .venv/developed

.venv/developed: .venv/tools $(NATIVE)
	$(PIP) --no-build-isolation --editable ".[dev]"
	touch .venv/installed $@

# After trying newer versions of what burn and its tests stand on.
constraints: develop
	head -1 constraints.txt > constraints.new
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' >> constraints.new
	mv constraints.new constraints.txt

demo: install
	$(BIN)/python examples/digits/demo.py

test: develop
	$(BIN)/python -m pytest -n 2 --dist worksteal tests

lint: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: develop
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: develop
	$(BIN)/burn-bench

clean:
	rm -rf build dist
