# Two commands for a fresh machine with Python 3.11+, git and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test stress lint torture mutants fuzz soak lab bench screenshot clean

help:  ## show this
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(READY)  ## start demo agents in a temporary home and show what agentctl says of them
	@$(BIN)/python scripts/demo.py

test: $(READY) lint  ## lint, types and all tests that need no privileges, but for the long ones of `make stress`
	scripts/contained $(BIN)/python -m pytest -n 3 --dist worksteal -m "not stress"

stress: $(READY)  ## the tests that take long: killed at every step, many at once, races
	scripts/contained $(BIN)/python -m pytest -n 2 --dist worksteal -m stress

lint: $(READY)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

torture: $(READY)  ## the lies of session tools, as named tests on real processes (needs PID namespaces and tmux); the whole writes docs/torture.md: [CASE=name]
	$(BIN)/python -m tests.torture $(or $(CASE),--write)
ifeq ($(CASE),)
	$(BIN)/python -m tests.mutants --sample 5 --seed "$$(git rev-parse HEAD 2>/dev/null)"
endif

mutants: $(READY)  ## takes each defence out and looks that the torture suite goes red; the whole writes its part of docs/torture.md: [ONLY=name]
	$(BIN)/python -m tests.mutants $(or $(ONLY),--write)

fuzz: $(READY)  ## damaged files of every kind through the real query path: [N=100000] [SEED=1] [ONLY=target] [REPLAY=case]
	scripts/contained $(BIN)/python -m tests.fuzz --n $(or $(N),100000) --seed $(or $(SEED),1) \
	  $(if $(ONLY),--only "$(ONLY)") $(if $(REPLAY),--replay $(REPLAY))

soak: $(READY)  ## a random life of agents against an oracle that knows the truth: [MINUTES=10] [SEED=n] [AGENTS=a,b] (needs PID namespaces)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(AGENTS),--agents $(AGENTS))

lab: $(READY)  ## the real agents, offline, in every state (needs Node): [FULL=1] [AGENT=codex [VERSION=latest]] [CELL=name] [CONTROLS=1] [VERBS=1]
	$(BIN)/python -m tests.lab $(if $(FULL),--full) $(if $(CONTROLS),--controls) $(if $(VERBS),--verbs) $(if $(AGENT),--agent $(AGENT)) \
	  $(if $(VERSION),--version $(VERSION)) $(if $(CELL),--cell $(CELL))

bench: $(READY)  ## what commands cost with 100 to 10 000 stored sessions; writes docs/performance.md: [QUICK=1] [N=1000]
	scripts/contained $(BIN)/python -m bench.scale $(if $(QUICK),--quick) $(if $(N),-n $(N))
	$(if $(QUICK)$(N),,scripts/contained $(BIN)/python -m bench.launch)
	$(if $(QUICK)$(N),,scripts/contained $(BIN)/python -m bench.wait)
	$(if $(QUICK)$(N),,scripts/contained $(BIN)/python -m bench.usage)

screenshot: $(READY)  ## draw the pictures in the README anew, from real runs
	$(BIN)/python -m scripts.screenshot
	scripts/contained $(BIN)/python -m scripts.recording

clean:  ## remove the environment and caches
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml requirements-dev.txt requirements-tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "agentctl needs Python 3.11 or newer: $(PYTHON) is not. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) (a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-tools.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -r requirements-dev.txt -e .
	@touch $(READY)
