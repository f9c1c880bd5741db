# make install | check | test | demo | lock | clean. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
WORKERS ?= 4
PYTEST := $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
BENCH_ARGS ?=
EVAL_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install check format schema test test-fast test-editors demo bench bench-quick bench-server eval eval-peer lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile

install: ## create .venv from the lock files; compiles llama.cpp the first time, and proves that it decodes
	@$(PYTHON) scripts/install.py $(VENV)

check: install ## formatting, lint, types, import rules, generated pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m ds4_lsp.protocol.schema --check
	scripts/check_lua.sh
	scripts/check_vscode.sh

format: install ## format the code, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: install ## write the generated pages under docs/
	$(BIN)/python -m ds4_lsp.protocol.schema

test: check ## everything: the checks and all tests (fetches the test models and editors the first time)
	$(PYTEST) $(PYTEST_ARGS)

test-fast: install ## the tests that need no model, no editor and no server
	$(PYTEST) -m "not model and not editor and not process" $(PYTEST_ARGS)

test-editors: install ## only the suites in a real Neovim and a real VS Code
	$(PYTEST) tests/editors $(PYTEST_ARGS)

demo: install ## a session on a real model: make demo [MODEL=/path/x.gguf] [PROMPT="..."]
	@$(BIN)/python -m ds4_lsp.cli.demo $(if $(MODEL),--model "$(MODEL)") $(if $(PROMPT),--prompt "$(PROMPT)")

bench: install ## what the server adds, as ratios and counts, into docs/performance.md (ten minutes on two cores)
	@$(BIN)/python -m benchmarks --json build-bench.json --page docs/performance.md --plots docs/performance $(BENCH_ARGS)

bench-quick: install ## the same on smaller sizes, printed only (two minutes)
	@$(BIN)/python -m benchmarks --quick $(BENCH_ARGS)

bench-server: install ## optional: compile llama-server, which make bench then compares with (half an hour)
	@$(BIN)/python -m benchmarks.install_server

eval: install ## small jobs on a real model: make eval [MODEL=...] [EVAL_ARGS="--only edit --json out.json"]
	@$(BIN)/python -m evals $(if $(MODEL),--model "$(MODEL)") $(EVAL_ARGS)

eval-peer: install ## the same jobs by mini-swe-agent: make eval-peer MODEL=/path/x.gguf [EVAL_ARGS="--only edit"]
	@$(BIN)/python -m evals.install_peer
	@.venv-peer/bin/python -m evals.peer --model "$(MODEL)" $(EVAL_ARGS)

models-page: install ## the table of chat templates in docs/models.md (two minutes)
	@$(BIN)/python -m benchmarks.template_page --page docs/models.md

lock: ## resolve the dependencies anew into the lock files
	PYTHON="$(PYTHON)" scripts/lock.sh

clean: ## remove what was built here; compiled wheels and models stay in the user's cache
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
