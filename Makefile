# make train    sets up .venv on first use, then trains: G1, as many environments as pay off
# make test     sets up .venv on first use, then lint, types, import rules, every test, notebooks, smoke run
# make quick    the same checks, but only the tests that are not marked slow
#
#   make train ARGS="--robot cartpole --iterations 50"      passes flags on
#   make train EXTRAS=cuda12                                jax for NVIDIA (or cuda13)

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
EXTRAS ?=
ROBOT  := --robot g1 --num-envs auto

PY    := $(VENV)/bin/python
WANT  := $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.installed-$(WANT)-$(subst $(comma),-,$(EXTRAS))

.PHONY: setup train plan test quick lint unit notebook smoke bench clean

setup: $(STAMP)

# The stamp's name holds a checksum of what to install: while that stays the same, make uses no
# network.
$(STAMP):
	@scripts/setup.sh "$(PYTHON)" "$(VENV)" "$(EXTRAS)"
	@rm -f $(VENV)/.installed-* && touch $@

train: setup
	@$(PY) -m jaxrl_hw.train $(if $(findstring --robot,$(ARGS)),,$(ROBOT)) $(ARGS)

plan: setup
	@$(PY) -m jaxrl_hw.plan $(ARGS)

test: lint unit notebook smoke

# With worksteal an idle worker takes tests over, so both end at about the same time.
TESTS := $(PY) -m pytest -n 2 --dist worksteal

quick: lint
	$(TESTS) -m "not slow"

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

unit: setup
	$(TESTS)

notebook: setup
	JAXRL_HW_NOTEBOOK_SIZE=tiny $(PY) -m pytest --nbmake --nbmake-timeout=300 notebooks

smoke: setup
	@$(MAKE) --no-print-directory train ARGS=--smoke

bench: setup
	$(PY) benchmarks/throughput.py $(ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
