# Everything runs in .venv. `make install` puts burn into it; `make develop` also what tests and lint need (PyTorch among it).
# Needs Python 3.11 and a C and C++ compiler; cmake and ninja are PyPI wheels.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PACKAGES := $(BIN)/python .ci/packages.py
BUILD_TOOLS := scikit-build-core nanobind numpy cmake ninja
NEEDED := 'import sys; toml = __import__("tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli", fromlist=["load"]); project = toml.load(open("pyproject.toml", "rb"))["project"]; \
	print(*project["dependencies"], *(r for e in sys.argv[1:] for r in project["optional-dependencies"][e]), sep="\n")'
NATIVE := CMakeLists.txt pyproject.toml constraints.txt $(wildcard burn/runtime/native/*)

.PHONY: install develop constraints demo wheels test test-native test-gpu lint format docs bench clean

# Editable: Python changes take effect at once, and a change of the native code rebuilds it at the next `make`.
install: .venv/built .venv/needed

develop: .venv/built .venv/developed

.venv/tools: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) $(BUILD_TOOLS)
	touch $@

# burn alone, so that `make -j2` builds it while the packages come.
.venv/built: .venv/tools $(NATIVE)
	$(PIP) --no-build-isolation --no-deps --editable .
	touch $@

.venv/needed: .venv/tools pyproject.toml
	$(BIN)/python -c $(NEEDED) > $@.txt
	$(PACKAGES) $@.txt constraints.txt
	touch $@

.venv/developed: .venv/tools pyproject.toml
	$(BIN)/python -c $(NEEDED) dev > $@.txt
	$(PACKAGES) $@.txt constraints.txt
	touch $@

.venv/documented: .venv/developed
	$(BIN)/python -c $(NEEDED) docs > $@.txt
	$(PACKAGES) $@.txt constraints.txt
	touch $@

# The site, into build/site. Warnings are errors: a missing page, a broken link, a notebook that fails.
docs: .venv/built .venv/documented
	$(BIN)/python docs/gen.py
	$(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet -b html docs build/site
	@echo "open build/site/index.html"

# After the tests passed with newer versions of the dependencies.
constraints: develop .venv/documented
	head -1 constraints.txt > constraints.new
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' >> constraints.new
	mv constraints.new constraints.txt

demo: install
	$(BIN)/python examples/digits/demo.py

# Into dist/: wheels of this Python's ABI for each machine, and the source distribution (CONTRIBUTING.md, "Release").
wheels: develop
	$(PIP) auditwheel wheel
	$(BIN)/python release/wheels.py

test: develop
	$(BIN)/python -m pytest -n 2 --dist worksteal tests

# The runtime's C code under AddressSanitizer, UBSan and ThreadSanitizer, by the system's compiler.
test-native: develop
	$(BIN)/python -m pytest -m sanitized tests/runtime tests/deploy

# The tests that need a GPU: about five minutes on one H100 and 16 cores. The Python there must have burn, PyTorch, Triton and pytest.
test-gpu:
	$(or $(wildcard $(BIN)/python),python3) -m pytest tests/gpu
	$(or $(wildcard $(BIN)/python),python3) -m tests.onnx_suite.sweep --backend cuda -j $(shell nproc) --suite node --timeout 120

lint: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/prose.py
	$(BIN)/proselint check --config docs/proselint.json *.md docs/guide/*.md
	$(BIN)/pyrefly check --output-format min-text
	$(BIN)/pyright

format: develop
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: develop
	$(BIN)/burn-bench

clean:
	rm -rf build dist
