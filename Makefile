# make demo   a real training run on this machine's CPU that loses a rank and comes back
# make test   linters, types, layers, then all tests
# make lint   the first three only
# make clean  removes the environment and everything that was built or left by runs
#
# Both make the environment in .venv first, with the CPU build of torch: where pip does not find
# it by itself, from PyTorch's own index. With a build for GPUs: make test TORCH=torch==2.13.0

PYTHON ?= python3.11
TORCH  ?= torch==2.13.0+cpu
CPU_INDEX := https://download.pytorch.org/whl/cpu
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
SOURCE := resilient tests launch $(wildcard benchmarks)

.PHONY: demo test lint clean
.DELETE_ON_ERROR:

demo: $(READY)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python launch/demo.py

test: lint
	$(BIN)/python -m pytest --reruns 2

lint: $(READY)
	$(BIN)/ruff check $(SOURCE)
	$(BIN)/ruff format --check $(SOURCE)
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist *.egg-info resilient-runs
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@echo "== 1/3 environment in $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "== 2/3 $(TORCH) (about 200 MB)"
	@$(PIP) install --progress-bar off $(TORCH) \
	  || $(PIP) install --progress-bar off --extra-index-url $(CPU_INDEX) $(TORCH) \
	  || { echo "pip found no $(TORCH). Name another build: make $(MAKECMDGOALS) TORCH=torch==2.13.0"; \
	       exit 1; }
	@echo "== 3/3 resilient-run and what its tests need"
	@$(PIP) install --progress-bar off -c constraints.txt -e '.[dev]'
	@touch $@
