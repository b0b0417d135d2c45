# Everything runs in .venv. `make install` puts burn into it; `make develop` also what tests and lint need (PyTorch among it).
# Needs Python 3.11 and a C and C++ compiler; cmake and ninja are PyPI wheels.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
BUILD_TOOLS := "scikit-build-core>=0.10" "nanobind>=2.9" "numpy>=2.0" "cmake>=3.26" "ninja>=1.11"
NATIVE := CMakeLists.txt pyproject.toml $(wildcard burn/runtime/native/*)

.PHONY: install develop demo test lint format bench clean

# Editable: Python changes take effect at once, and a change of the native code rebuilds it at the next `make`.
install: .venv/installed

.venv/installed: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(BUILD_TOOLS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
	touch $@

develop: .venv/developed

.venv/developed: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable ".[dev]"
	touch $@

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
