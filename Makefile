# One thread for linear algebra: the matrices are small and the tests already run in parallel.
export OPENBLAS_NUM_THREADS ?= 1

# Tests start many processes; without bytecode on disk each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# Everything runs in .venv, created on first use; only Python >= 3.11 is needed. $(RUN) marks an
# environment that can run the package, $(DEV) one that has the tools for tests and documentation, too.
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/run-ready
DEV := .venv/dev-ready
NOX = PATH="$(CURDIR)/$(BIN):$$PATH" $(NICE) $(BIN)/nox --no-venv --session
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# An explicit PYTHON replaces an environment of another version.
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) --version 2>&1),$(shell $(BIN)/python --version 2>&1))
.PHONY: $(RUN)
OTHER_PYTHON := yes
endif
endif

# $(call step,name,command) runs a command and appends its duration to $(DURATIONS).
DURATIONS := .venv/durations
step = @echo '$(2)'; begun=$$(date +%s); $(2) && printf '%5d s  %s\n' $$(($$(date +%s) - begun)) '$(1)' >> $(DURATIONS)

# Figures shown in the README and the documentation.
SHOWN := stability theorem1 two-state baird step-size theory advice evaluation-page map accuracy \
  mountain-car-paper-curves mountain-car-paper-distribution mountain-car-usual-sensitivity

# Those of them that `saddleback paper` also draws as PDF.
PRINTED := $(filter-out advice evaluation-page map accuracy,$(SHOWN))

.PHONY: paper map mutants test quick lint examples suite kernels quick-suite gpu gpu-bench docs bench weight numbers advice states traces coverage verdicts accuracy faults peers open-bandit evaluation-page figures clean
.DEFAULT_GOAL := paper

# Reproduce the paper's experiments at full size: tables on the terminal, all results in results/.
paper: $(RUN)
	$(BIN)/saddleback paper all --out results

# Where GES leads, over problems, λ, step sizes and measures: a table, results/map.json and a figure.
# Five minutes of computing; a run that was stopped continues.
map: $(DEV)
	$(BIN)/python -m benchmarks.ges_map

# The share of a sample of mutants of the code that the tests kill; results/mutants.json.
# MUTANTS='--sample 100 --seed 1' for others. It first records which lines each file of tests executes; a run
# that was stopped continues.
mutants: $(DEV)
	$(BIN)/python -m benchmarks.mutants $(MUTANTS)

# Linters, types, import layers, the complete suite (which builds the documentation), and the kernel
# tests again with the compiler off. The examples run before the suite, so that its workers can load
# most compiled kernels from disk; the kernel tests run whenever the suite leaves a core idle.
test: $(DEV)
	@rm -f $(DURATIONS)
	@$(MAKE) --no-print-directory -j2 IN_ORDER=yes suite kernels
	@cat $(DURATIONS)

ifdef IN_ORDER
suite: examples
kernels: lint
endif

# The same without slow tests, and without the second run of the kernel tests.
quick: $(DEV)
	@rm -f $(DURATIONS)
	@$(MAKE) --no-print-directory -j2 lint quick-suite
	@cat $(DURATIONS)

# Sessions of noxfile.py, in this environment.
kernels: NICE := nice -n 19
lint examples suite kernels quick-suite: $(DEV)
	$(call step,$@,$(NOX) $(@:quick-suite=quick))

# The engine on a GPU against the engine on the CPU, and their speed (results/bench-gpu.json). They
# need a CUDA GPU and CuPy: pip install 'saddleback[cuda]' into .venv.
gpu: $(DEV)
	$(BIN)/pytest -q tests/cuda

gpu-bench: $(DEV)
	$(BIN)/python benchmarks/gpu.py

# The documentation, in docs/_build/html; a warning is an error.
docs: $(DEV)
	$(NOX) docs

# Speed: tables of ratios and times; results/bench.json, bench-logs.json, bench-compiling.json
# and scaling.json.
bench: $(DEV)
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/logs.py
	$(BIN)/python benchmarks/compiling.py
	$(BIN)/python benchmarks/scaling.py

# What an installation weighs, and how fast it starts: a table and results/install.json. It installs
# the package twice, in new environments. Then the minutes of make paper and make test in a new clone
# (results/bench-commands.json).
weight: $(DEV)
	$(BIN)/python benchmarks/install.py
	$(BIN)/python benchmarks/commands.py

# The numbers of the pages, from the files that the benchmarks wrote.
numbers: $(DEV)
	$(BIN)/python docs/fill_numbers.py

# Quality of the advice on step sizes: a table, results/advice.json and a figure.
advice: $(DEV)
	$(BIN)/python benchmarks/advice.py

# Comparison of rules for state values: tables, results/states.json and states.md.
states: $(DEV)
	$(BIN)/python benchmarks/states.py

# Comparison of traces for estimating the value of a policy: a table and results/traces.json.
traces: $(DEV)
	$(BIN)/python benchmarks/traces.py

# Coverage of 95% confidence intervals: a table and results/coverage.json.
coverage: $(DEV)
	$(BIN)/python benchmarks/intervals.py

# Accuracy of verdicts where the true value is known: tables, results/verdicts.json and verdicts.md.
# BENCHMARK_MINUTES is the time budget; a run that was stopped continues.
verdicts: $(DEV)
	$(BIN)/python -m benchmarks.verdicts

# Accuracy of the automatic answer and of other methods: a table, results/accuracy.json and a figure;
# LOGS=--logs=100 for more logs, PEERS=--peers=5 to give as many to other packages, in environments
# created by `make peers INSTALL=--install`. BENCHMARK_MINUTES as above.
accuracy: $(DEV)
	$(BIN)/python -m benchmarks.accuracy $(LOGS) $(PEERS)

# A campaign of random faults (damaged files, wrong rows, odd settings, kills, full disks): a table and
# results/faults.json. One that was stopped continues.
TRIES ?= 1000
faults: $(DEV)
	$(BIN)/python -m benchmarks.faults $(TRIES)

# Comparison with other packages on the same logs; INSTALL=--install creates environments for them.
peers: $(DEV)
	$(BIN)/python benchmarks/peers $(INSTALL)

# A published number of the Open Bandit data; INSTALL=--install downloads them.
open-bandit: $(DEV)
	$(BIN)/python benchmarks/open_bandit.py $(INSTALL)

# The image of an evaluation page in the README; needs Chromium.
evaluation-page: $(DEV)
	$(BIN)/python docs/evaluation_page.py

# Recreate the figures of the README and the documentation.
figures: paper map advice evaluation-page accuracy
	cp $(SHOWN:%=results/%.png) docs/figures/
	cp $(PRINTED:%=results/%.pdf) docs/figures/
	cp results/reproduction.md docs/paper/

$(RUN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "saddleback needs Python 3.11 or newer; this is %s. Point make at one: make PYTHON=python3.12" % sys.version.split()[0])'
	$(if $(OTHER_PYTHON),,test -x $(BIN)/python ||) $(PYTHON) -m venv --clear .venv
	$(PIP) --editable '.[plots]'
	@touch $@

$(DEV): $(RUN)
	$(PIP) --upgrade pip
	$(PIP) --group dev --group docs
	@touch $@

clean:
	rm -rf .venv results docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
	  .hypothesis .coverage
