# Two commands for a fresh machine with Python 3.11+, git and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest $(if $(NO_SKIPS),--no-skips)

.PHONY: help demo test unit bare stress lint torture torture-report mutants mutants-match fuzz soak lab ladder bench bench-against screenshot clean

help:  ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

demo: $(CORE)  ## start demo agents in a temporary home and show what agentctl says about them
	@$(BIN)/python scripts/demo.py

test: lint unit  ## lint, types and all tests that need no privileges, but for the long ones of `make stress`

unit: $(READY)  ## the tests of `make test` alone: [ONLY="not bulk"] [NO_SKIPS=1: a test that cannot run here fails]
	scripts/contained $(PYTEST) -n 3 --dist worksteal -m "not stress$(if $(ONLY), and $(ONLY))"

bare: $(READY)  ## the tests and the demo on Python 3.13 in a minimal Debian 13, and in a plain chroot (needs root and Debian)
	scripts/bare make unit demo NO_SKIPS=1 ONLY="not bulk"
	scripts/bare --plain make demo

stress: $(READY)  ## the tests that take long: killed at every step, many at once, races
	scripts/contained $(PYTEST) -n 2 --dist worksteal -m stress

lint: $(READY)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

torture: $(READY)  ## the known lies of session tools, on real processes; a whole run writes docs/torture.md: [CASE=name] (needs PID namespaces and tmux)
	$(BIN)/python -m tests.torture $(or $(CASE),--write)
ifeq ($(CASE),)
	$(BIN)/python -m tests.mutants --sample 5 --seed "$$(git rev-parse HEAD 2>/dev/null)"
endif

torture-report: $(READY)  ## print every check of the last whole `make torture`, and the mutants: [CASE=name]
	@$(BIN)/python -m tests.torture --report $(CASE)
	@$(if $(CASE),,printf '\n## Mutants\n\n'; $(BIN)/python -m tests.mutants --list)

mutants: $(READY)  ## remove each defence and check that the torture suite fails; writes its part of docs/torture.md: [ONLY=name] [NEW=1: only those that the page does not name]
	$(BIN)/python -m tests.mutants $(or $(ONLY),--write $(if $(NEW),--new))

mutants-match: $(READY)  ## check that every mutant still fits the sources; runs nothing, and is part of `make test`
	@$(BIN)/python -m tests.mutants --match

fuzz: $(READY)  ## read damaged files of every kind with the real commands: [N=100000] [SEED=1] [ONLY=target] [REPLAY=case]
	scripts/contained $(BIN)/python -m tests.fuzz --n $(or $(N),100000) --seed $(or $(SEED),1) \
	  $(if $(ONLY),--only "$(ONLY)") $(if $(REPLAY),--replay $(REPLAY))

soak: $(READY)  ## agents live and die at random while an oracle checks every answer: [MINUTES=10] [SEED=n] [AGENTS=a,b] [WITH=a,b] (needs PID namespaces and tmux)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(AGENTS),--agents $(AGENTS)) \
	  $(if $(WITH),--with $(WITH))

lab: $(READY)  ## run the real agents, offline, in every state: [FULL=1] [AGENT=codex [VERSION=latest]] [CELL=name] [CONTROLS=1] [VERBS=1] [EVENTS=1] (needs Node)
	$(BIN)/python -m tests.lab $(if $(FULL),--full) $(if $(CONTROLS),--controls) $(if $(VERBS),--verbs) $(if $(EVENTS),--events) $(if $(AGENT),--agent $(AGENT)) \
	  $(if $(VERSION),--version $(VERSION)) $(if $(CELL),--cell $(CELL))

ladder: $(READY)  ## the core cells of `make lab` on versions of the last months; writes its part of docs/certified.md: [AGENT=codex [VERSION=0.140.0]] (needs Node; by hand, not in CI)
	$(BIN)/python -m tests.lab --ladder $(if $(AGENT),--agent $(AGENT)) $(if $(VERSION),--version $(VERSION)) $(if $(CELL),--cell $(CELL))

bench: $(READY)  ## what commands cost with 100 to 10 000 stored sessions; writes docs/performance.md: [QUICK=1] [N=1000]
	scripts/contained $(BIN)/python -m bench.scale $(if $(QUICK),--quick) $(if $(N),-n $(N))
	$(if $(QUICK)$(N),,scripts/contained $(BIN)/python -m bench.launch)
	$(if $(QUICK)$(N),,scripts/contained $(BIN)/python -m bench.wait)
	$(if $(QUICK)$(N),,scripts/contained $(BIN)/python -m bench.live)
	$(if $(QUICK)$(N),,scripts/contained $(BIN)/python -m bench.usage)

bench-against: $(READY)  ## what commands cost in the working tree and in REV, in one run; fails above 1.05 times: REV=main [INSTRUCTIONS=1] [ROUNDS=20] [N=1000] [ONLY=list]
	$(if $(REV),,$(error which revision? make bench-against REV=main))
	scripts/contained $(BIN)/python -m bench.against "$(REV)" $(if $(INSTRUCTIONS),--instructions) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(N),-n $(N)) $(if $(ONLY),--only="$(ONLY)")

screenshot: $(READY)  ## draw the pictures in the README anew, from real runs
	$(BIN)/python -m scripts.screenshot
	scripts/contained $(BIN)/python -m scripts.recording

clean:  ## remove the environment and caches
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Without the extras: what `pip install agentctl` gives.
$(CORE): pyproject.toml requirements-tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "agentctl needs Python 3.11 or newer: $(PYTHON) is not. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) (a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-tools.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation -e .
	@touch $(CORE)

$(READY): $(CORE) requirements-dev.txt
	@echo "adding what the tests need to $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-dev.txt
	@touch $(READY)
