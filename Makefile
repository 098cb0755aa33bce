# Everything a newcomer needs: `make serve` and `make test`. Each sets up what it needs first, and does nothing twice.
# MLX_BACKEND=cuda13 takes MLX for NVIDIA GPUs, and it stays until MLX_BACKEND=cpu or `make clean`. COXSWAIN_HOME moves
# downloads and models (default ~/.cache/coxswain), CARGO_TARGET_DIR what is built (default target).

SHELL := /bin/bash
# Flags from the environment would replace those that tell a binary where MLX lies.
unexport RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
# Exported, so that a target folder in cargo's own configuration cannot differ from the one meant here.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
BINARY := $(CARGO_TARGET_DIR)/release/coxswain
SETUP := $(CARGO_TARGET_DIR)/debug/setup

.PHONY: serve test build model native check lint sim bench bench-stall bench-worker bench-crowd gpu-bench deploy-test console templates fuzz oracle clean help need tool

help: ## What there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

serve: build model ## Build, fetch the default model, serve it on 127.0.0.1:8080 (ARGS adds options)
	exec "$(BINARY)" serve $(ARGS)

build: native ## target/release/coxswain
	@setup/progress.sh coxswain "the first time takes 5 to 10 minutes on 2 cores" cargo build --release --locked --package coxswain

model: tool ## The default model, SmolLM2-135M-Instruct, under ~/.cache/coxswain/models
	@"$(SETUP)" model

native: tool ## MLX, where Cargo finds it (Linux; nothing to do on macOS)
	@"$(SETUP)" native

test: native model ## Every test
	@echo "make: building and running the tests (the first time takes some minutes)"
	cargo test --workspace --locked --no-fail-fast

check: native model ## What a change is held to: fmt, clippy, tests, the simulator, licences, unused dependencies
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(MAKE) test
	$(MAKE) sim
	$(MAKE) lint

lint: ## cargo-deny and cargo-machete, where they are installed
	@if command -v cargo-deny >/dev/null; then cargo deny --all-features check licenses bans sources; else echo "make: cargo-deny is not installed (cargo install --locked cargo-deny): skipped"; fi
	@if command -v cargo-machete >/dev/null; then cargo machete; else echo "make: cargo-machete is not installed (cargo install --locked cargo-machete): skipped"; fi

sim: need ## 2,000 simulated hours of scheduler and KV pool under faults (SEED, SEEDS and HOURS change that); needs no MLX
	cargo run --release --locked --quiet --package loadtest --bin sim -- --seed $(or $(SEED),1) --seeds $(or $(SEEDS),2000) --hours $(or $(HOURS),1)

bench: build model ## coxswain against mlx-lm's own server on this machine, at 1, 8 and 16 clients
	bench/run.sh "$(BINARY)" $(ARGS)

bench-stall: build model ## A prompt of 6,000 tokens among 8 streams: how long they stall, and how long it waits
	python3 bench/long_prompt.py "$(BINARY)" $(ARGS)

bench-worker: build model ## The model in a process of its own against --in-process: throughput, and pages while a prompt is read
	python3 bench/worker.py "$(BINARY)" $(ARGS)

bench-crowd: build ## 2,000 connections that read nothing, beside 8 clients; and what one too many is told by a full queue
	python3 bench/crowd.py "$(BINARY)" $(ARGS)

GPU_PYTHON ?= python3
GPU_MODELS ?= $(CARGO_TARGET_DIR)/gpu
gpu-bench: build ## Decode on an NVIDIA GPU beside mlx-lm and the floor; GPU_PYTHON has mlx[cuda13] and mlx-lm
	cargo build --release --locked --package models --example decode
	$(GPU_PYTHON) bench/gpu/bench.py --decode "$(CARGO_TARGET_DIR)/release/examples/decode" --folder "$(GPU_MODELS)" $(ARGS)

deploy-test: build model ## deploy/ against a live service: Prometheus, every panel and rule, Grafana's schema (needs prometheus and npm)
	tests/deploy/run.sh "$(BINARY)"

console: build model ## The console in headless Chromium, before the real service (ARGS="--screenshots docs" makes its pictures)
	tests/console/run.sh "$(BINARY)" $(ARGS)

templates: need ## 70 chat templates as jinja2 renders them (ARGS="--only Qwen --verbose"); needs python3 and no MLX
	@setup/progress.sh "the renderer" "the first time takes some minutes" cargo build --locked --package models --no-default-features --features text --example render
	tests/templates/run.sh "$(CARGO_TARGET_DIR)/debug/examples/render" $(ARGS)

fuzz: need ## The parsers under libFuzzer, 600 s each (TARGET=gguf and SECONDS=60 change that); needs cargo-fuzz and no MLX
	fuzz/run.sh $(or $(SECONDS),600) $(TARGET)

oracle: ## The Python environment that makes goldens: mlx-lm, pinned
	oracle/setup.sh

clean: ## Forget builds, MLX and the Python environment (not the models, nor a CARGO_TARGET_DIR elsewhere)
	rm -rf target native native.* .venv

# What set-up is done with. Built before MLX is in place and after: without the flags that MLX's place adds, that is one build.
tool: need
	@RUSTFLAGS= setup/progress.sh "the set-up step" "once, a minute or two" cargo build --locked --package setup

need:
	@setup/need.sh
