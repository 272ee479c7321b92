# One thread for linear algebra: the matrices are small and the tests already run in parallel.
export OPENBLAS_NUM_THREADS ?= 1

# Everything runs in .venv, made on first use from nothing but Python >= 3.11: $(RUN) stands for what
# running needs, $(DEV) for the tools of testing and documentation on top of it.
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/run-ready
DEV := .venv/dev-ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# A PYTHON given by name replaces an environment of another version.
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) --version 2>&1),$(shell $(BIN)/python --version 2>&1))
.PHONY: $(RUN)
OTHER_PYTHON := yes
endif
endif

# $(call step,name,command) runs a command and notes in $(TOOK) how long it took.
TOOK := .venv/took
step = @echo '$(2)'; begun=$$(date +%s); $(2) && printf '%5d s  %s\n' $$(($$(date +%s) - begun)) '$(1)' >> $(TOOK)

# Figures that README and documentation show.
SHOWN := stability theorem1 two-state baird step-size theory advice evaluation-page \
  mountain-car-paper-curves mountain-car-paper-distribution mountain-car-usual-sensitivity

.PHONY: paper test quick lint examples kernels quick-suite docs bench advice states traces coverage verdicts peers evaluation-page figures clean
.DEFAULT_GOAL := paper

# Reproduce the experiments at full size; tables on the terminal, the rest in results/.
paper: $(RUN)
	$(BIN)/saddleback paper all --out results

# Linters, types, layers, the whole suite (which builds the documentation), and the kernels once
# more with the compiler off. What takes one core runs side by side; the examples come before the
# rest, so that its workers find most kernels compiled.
test: $(DEV)
	@rm -f $(TOOK)
	@$(MAKE) --no-print-directory -j2 examples kernels
	$(call step,the suite,$(BIN)/pytest -q -n auto --dist worksteal --durations=25 tests)
	@cat $(TOOK)

# The same without the tests that take long, and without the kernels' second run.
quick: $(DEV)
	@rm -f $(TOOK)
	@$(MAKE) --no-print-directory -j2 lint quick-suite
	@cat $(TOOK)

lint: $(DEV)
	$(call step,ruff,$(BIN)/ruff check . && $(BIN)/ruff format --check .)
	$(call step,mypy,$(BIN)/mypy)
	$(call step,import layers,$(BIN)/lint-imports)

examples: lint
	$(call step,examples in docstrings,$(BIN)/pytest -q src)

kernels: $(DEV)
	$(call step,kernels with the compiler off,NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -q -m kernel tests)
	$(BIN)/coverage report --fail-under=100 --skip-covered

quick-suite: $(DEV)
	$(call step,the quick suite,$(BIN)/pytest -q -n auto --dist worksteal -m "not (slow or statistical or browser or cluster)")

# The documentation, in docs/_build/html; a warning is an error.
docs: $(DEV)
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html

# How fast: tables of ratios and times; results/bench.json, bench-logs.json, bench-compiling.json
# and scaling.json.
bench: $(DEV)
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/logs.py
	$(BIN)/python benchmarks/compiling.py
	$(BIN)/python benchmarks/scaling.py

# How good the advice on step sizes is: a table, results/advice.json and a picture.
advice: $(DEV)
	$(BIN)/python benchmarks/advice.py

# Which rule for state values: tables, results/states.json and states.md.
states: $(DEV)
	$(BIN)/python benchmarks/states.py

# Which trace solves best for the value of a policy: a table and results/traces.json.
traces: $(DEV)
	$(BIN)/python benchmarks/traces.py

# How often 95 % intervals cover what they say: a table and results/coverage.json.
coverage: $(DEV)
	$(BIN)/python benchmarks/intervals.py

# How often verdicts are right, where the truth is known: a table and results/verdicts.json.
verdicts: $(DEV)
	$(BIN)/python benchmarks/verdicts.py

# Beside other tools, on the same logs; INSTALL=--install first makes environments for them.
peers: $(DEV)
	$(BIN)/python benchmarks/peers $(INSTALL)

# The picture of an evaluation page in README; needs Chromium.
evaluation-page: $(DEV)
	$(BIN)/python docs/evaluation_page.py

# The pictures of README and documentation, made again.
figures: paper advice evaluation-page
	cp $(SHOWN:%=results/%.png) docs/figures/
	cp results/reproduction.md docs/paper/

$(RUN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "saddleback needs Python 3.11 or newer; this is %s. Point make at one: make PYTHON=python3.12" % sys.version.split()[0])'
	$(if $(OTHER_PYTHON),,test -x $(BIN)/python ||) $(PYTHON) -m venv --clear .venv
	$(PIP) --editable .
	@touch $@

$(DEV): $(RUN)
	$(PIP) --upgrade pip
	$(PIP) --group dev --group docs
	@touch $@

clean:
	rm -rf .venv results docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
	  .hypothesis .coverage
