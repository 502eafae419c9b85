# Regie: everything that a newcomer or CI runs. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
REGIE := $(TARGET_DIR)/release/regie
CHAOS := $(TARGET_DIR)/chaos/release/regie

.PHONY: help up test setup build lint layers deny unit jail journeys sdk-check wires projects projects-three crash escape escape-quick bench-engine \
	bench-jail bench-models bench-store bench-trust injection fuzz many proof dist clean

help: ## Lists the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

up: setup build ## Builds Regie and runs a first mission with the scripted model
	REGIE="$$(realpath $(REGIE))" examples/first-mission/run.sh

test: setup lint layers deny unit jail escape-quick journeys sdk-check projects-three ## Passes all tests
	@echo "make test: all passed"

setup: ## Installs what is missing, says what it cannot
	@scripts/setup

build: ## Builds the release binary
	$(CARGO) build --release --locked --package regie

lint: ## Formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

layers: ## The floors of the house, and the shape of its files
	$(CARGO) xtask layers
	$(CARGO) xtask sources
	scripts/unit-holds

deny: ## Licences, bans and sources of dependencies
	$(CARGO) xtask deny

unit: ## Unit, property, port and simulation tests
	$(CARGO) nextest run --workspace --locked --no-fail-fast

jail: ## The jail's and the runner's tests once more, as an ordinary user
	scripts/as-ordinary-user sandbox runner regie

escape: build ## Every known way out of the jail, as root: plain, held by Regie, held by its peers (ESCAPE="--only git/")
	REGIE="$$(realpath $(REGIE))" python3 scripts/escape --npm "$(TARGET_DIR)/escape/npm" $(ESCAPE)

escape-quick: build ## Some of each family, held by Regie
	REGIE="$$(realpath $(REGIE))" python3 scripts/escape --quick

sdk-check: build ## The vendors' own SDKs (PyPI, pinned) against the scripted model server
	REGIE="$$(realpath $(REGIE))" scripts/wires sdk "$(TARGET_DIR)/wires"

wires: build ## The same, missions through litellm, and the first mission on each wire
	REGIE="$$(realpath $(REGIE))" scripts/wires all "$(TARGET_DIR)/wires"

journeys: build ## The first mission, end to end through the release binary
	REGIE="$$(realpath $(REGIE))" scripts/first-mission-holds

projects: build ## Ten public packages with seeded bugs, mended through the release binary
	REGIE="$$(realpath $(REGIE))" python3 scripts/projects --cache "$(TARGET_DIR)/projects" $(PROJECTS)

projects-three: build ## Three quick ones of them
	REGIE="$$(realpath $(REGIE))" python3 scripts/projects --cache "$(TARGET_DIR)/projects" --quick

crash: ## Kills daemon and runner at every step boundary, and 50 times at random
	$(CARGO) build --release --locked --package regie
	$(CARGO) build --release --locked --package regie --features testkit --target-dir $(TARGET_DIR)/chaos
	REGIE_SIM_SCHEDULES=10000 $(CARGO) nextest run --locked --package kernel
	$(CARGO) nextest run --locked --package journal
	REGIE="$$(realpath $(REGIE))" CHAOS="$$(realpath $(CHAOS))" python3 scripts/crash

bench-engine: build ## What the engine costs beside its peers (npm, pinned): one table of ratios
	REGIE="$$(realpath $(REGIE))" python3 bench/engine --npm "$(TARGET_DIR)/bench/npm"

bench-jail: build ## What a jail costs beside bubblewrap, Codex's and sandbox-runtime (npm, pinned)
	REGIE="$$(realpath $(REGIE))" $(CARGO) run --release --locked --package bench-jail -- --npm "$(TARGET_DIR)/bench/npm-jail"

bench-models: ## What the model wires cost: one table of ratios
	$(CARGO) run --release --locked --package bench-models

bench-store: ## What trees cost beside git on 10,000 files: one table of ratios
	$(CARGO) run --release --locked --package bench-store

bench-trust: ## What a decision with 500 rules costs beside one match of its globs
	$(CARGO) run --release --locked --package bench-trust

injection: build ## An agent that obeys whatever it reads: AgentDojo and CodeIPI without a model (PyPI, pinned)
	$(CARGO) build --release --locked --package bench-injection
	JUDGE="$$(realpath $(TARGET_DIR)/release/bench-injection)" scripts/injection "$(TARGET_DIR)/injection" --write docs/security.md
	REGIE="$$(realpath $(REGIE))" python3 scripts/codeipi --cache "$(TARGET_DIR)/codeipi" --write docs/security.md

fuzz: ## Each parser, and the compiler of path rules, for FUZZ_SECONDS (600), guided by coverage
	scripts/fuzz "$(TARGET_DIR)/fuzz" $(FUZZ)

many: ## A million files in a workspace, and random path rules by the hundred thousand
	REGIE_PROOF=1 $(CARGO) nextest run --locked --package sandbox --package runner --package regie compile:: very_many

proof: crash escape injection projects wires fuzz bench-engine bench-jail bench-models bench-store bench-trust ## The long campaigns

dist: build ## Packs one archive: binary, man pages, completions, systemd unit, licence
	REGIE="$$(realpath $(REGIE))" scripts/dist "$(TARGET_DIR)/dist"

clean: ## Removes what was built
	$(CARGO) clean
