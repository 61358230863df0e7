# Two commands do everything on a machine with Python >= 3.11 (venv), a C++17 compiler and make:
#   make demo     build, then learn a real stream from the command line: a summary, and a report to open in a browser
#   make test     build, then every check and every test
# Both install the versions in locks/. For those who change undrift (CONTRIBUTING.md says more):
#   make locks    take the newest versions into locks/
#   make newest   the tests with the newest versions, locks left alone
#   make lowest   the tests of what users install, with the oldest versions that our ranges admit
#   make wheels   the sdist and the wheels, each tried in a clean environment, in dist/
#   make nightly  all that takes long
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard src/undrift/kernels/native/*) CMakeLists.txt pyproject.toml
# The environment reaches pip's isolated builds as well, where --constraint does not; later pips read the second variable.
locked  = PIP_CONSTRAINT=locks/$(1).txt PIP_BUILD_CONSTRAINT=locks/$(1).txt
INSTALL := -m pip install --quiet --disable-pip-version-check
PIP    := $(call locked,test) $(BIN)/python $(INSTALL)
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test build docs clean bench fuzz sanitize bench-adam quality-adam bench-certify bench-report certify-streams
.PHONY: bench-run stress stress-adam stress-accuracy stress-run stress-certify stress-threads attack nightly mutants
.PHONY: test-spark test-clients test-hosts test-levels test-neon bench-spark bench-fleet bench-fleet-command locks newest lowest wheels
demo: $(VENV)/.core
	$(BIN)/undrift demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -n 2 --dist loadgroup

test-spark: .venv-spark/.ready  ## fleets on Spark (needs Java 17 or newer); its own environment, as Spark wants pandas < 3
	.venv-spark/bin/python -m pytest tests/spark -x --durations 0 --timeout 240

test-clients: .venv-clients/.ready  ## our optimizers used by transformers, accelerate, lightning, flax, torch's and optax's own tests
	UNDRIFT_CLIENTS=1 OMP_NUM_THREADS=1 .venv-clients/bin/python -m pytest tests/clients -p no:cacheprovider --durations 5 --timeout 200

test-hosts: .venv-hosts/.ready  ## forecasts inside sktime (its own checks), mlforecast and skforecast; pandas < 3, so an environment of its own
	UNDRIFT_HOSTS=1 OMP_NUM_THREADS=1 .venv-hosts/bin/python -m pytest tests/hosts -p no:cacheprovider --durations 5 --timeout 3600

bench-spark: .venv-spark/.ready  ## CPU per record of a fleet on Spark, ours and the engine's
	.venv-spark/bin/python benchmarks/spark.py

bench-fleet: $(VENV)/.test  ## key-rounds per second of a fleet on one core, and bytes per key
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fleet.py

bench-fleet-command: $(VENV)/.test  ## what undrift fleet costs with 100,000 young keys, checked against a loop over keys
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fleet_command.py

stress: stress-adam stress-accuracy stress-run stress-forecast stress-certify stress-threads stress-serve

stress-threads: $(VENV)/.test  ## every model predicts a hundred thousand times in four threads while another one learns
	$(BIN)/python tests/stress/threads.py 100000

stress-adam: $(VENV)/.test
	$(BIN)/python tests/stress/adam_theorems.py

stress-certify: $(VENV)/.test  ## certificates of a hundred thousand random and adversarial runs; SEED=1 for others
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/stress/certificates.py 100000 $(SEED)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/stress/certificates.py 6000 $(SEED) --climb 60
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/stress/certificates.py 3000 $(SEED) --calibrate --climb 60
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/stress/costs.py 10000 $(SEED) --climb 10

stress-run: $(VENV)/.test  ## kill runs, give them two writers, signals and full disks at random moments, resume, compare every bit
	$(BIN)/python tests/stress/run_kills.py 20
	$(BIN)/python tests/stress/run_folders.py 10
	$(BIN)/python tests/stress/run_fuzz.py 1000
	$(BIN)/python tests/stress/spoiled_files.py 1000

.PHONY: stress-serve
stress-serve: $(VENV)/.test  ## kill services under load, compare every answer, and damage five hundred journals
	$(BIN)/python tests/stress/serve_kills.py 50
	$(BIN)/python tests/stress/damaged_journals.py 500

.PHONY: stress-forecast
stress-forecast: $(VENV)/.test  ## a year of hours, day by day through undrift update with kill -9 in between, equal to one run of it
	$(BIN)/python tests/stress/forecast_days.py 365 20 >/dev/null

bench-run: $(VENV)/.core  ## what undrift run costs: start-up, a real file, growth in rows
	cd benchmarks && ../$(BIN)/python run.py

docs: $(VENV)/.test  ## the site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.PHONY: tutorials
tutorials: $(VENV)/.test  ## play docs/tutorials and draw their pictures again
	$(BIN)/python tools/tutorials.py

bench: $(VENV)/.core  ## speed of the kernels: table, peers, machine; BENCH=--quick for a rough run
	$(PIP) --editable ".[bench]" nanobind
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/kernels.py --build $(or $(BENCH),--write docs/benchmarks.md)

mutants: $(VENV)/.test  ## deliberate errors in the theory, each of which the tests must notice; MUTANTS=vaw for some
	$(PIP) nanobind
	$(BIN)/python tools/mutants.py $(MUTANTS)

fuzz: $(VENV)/.core  ## random shapes, strides, dtypes and values at the kernels
	$(BIN)/python tests/stress/kernel_fuzz.py 300

sanitize: $(VENV)/.test  ## kernel tests under the address and undefined-behaviour sanitizers
	$(PIP) nanobind
	cmake -S . -B build/sanitize -DUNDRIFT_SANITIZE=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	cmake --build build/sanitize --parallel 2
	ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	$(BIN)/python tests/stress/sanitized.py build/sanitize

.PHONY: quality bench-online
.PHONY: bench-quantiles
bench-quantiles: $(VENV)/.core  ## intervals and quantiles, beside one width for all rows
	cd benchmarks && OMP_NUM_THREADS=1 ../$(BIN)/python quantiles.py --write ../docs/quantiles.md

quality: $(VENV)/.core  ## test-then-train on every stream, beside peers; QUALITY=--quick for a rehearsal
	$(PIP) --editable ".[bench]"
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/quality.py $(or $(QUALITY),--write docs/benchmarks.md)
	$(PIP) matplotlib
	$(if $(QUALITY),,$(BIN)/python benchmarks/quality_figure.py && $(BIN)/python benchmarks/first_screen.py --figure docs/first.png)

.PHONY: obvious
obvious: $(VENV)/.core  ## rare effects, jumps, shocks, late labels, given forecasts, costs, beside naive guesses; OBVIOUS="rare late" for some
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/obvious.py $(OBVIOUS)

bench-online: $(VENV)/.core  ## how fast the online estimators replay a stream, River interleaved
	$(PIP) --editable ".[bench]"
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/online.py --write docs/benchmarks.md

.PHONY: bench-rows
bench-rows: $(VENV)/.test  ## what a single row costs, by the kind of row and label
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/single_rows.py --write docs/benchmarks.md

.PHONY: bench-categories
bench-categories: $(VENV)/.core  ## columns of many categories learned by means, dropped, or hashed; minutes
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/categories.py

.PHONY: bench-trees
bench-trees: $(VENV)/.core  ## what boosted trees cost to fit, refresh and predict, LightGBM interleaved
	$(PIP) --editable ".[bench]"
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/trees.py

.PHONY: bench-forests
bench-forests: $(VENV)/.core  ## what forests beside an estimator cost, LightGBM refitted interleaved, and the longest single row
	$(PIP) --editable ".[bench]"
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/forests.py $(FORESTS)

.PHONY: bench-forecast
bench-forecast: $(VENV)/.core  ## forecasts of published, practical and synthetic series beside both naive ones; FORECAST="taxi --quick" for a part
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/forecast_series.py $(or $(FORECAST),--write docs/forecast.md)
	$(if $(FORECAST),,$(BIN)/python benchmarks/first_screen.py)

.PHONY: bench-forecast-peers
bench-forecast-peers: .venv-peers/.ready  ## the same series beside statsforecast and mlforecast with LightGBM, which are fitted at every origin; minutes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-peers/bin/python benchmarks/forecast_peers.py $(or $(FORECAST),--write docs/forecast.md)

.PHONY: bench-mixing
bench-mixing: $(VENV)/.core  ## published price forecasts mixed, beside their mean and the published ensembles
	$(PIP) matplotlib
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/mixing.py --write docs/mixing.md --figure docs/mixing.png

bench-certify: $(VENV)/.core  ## what a certificate costs as T grows
	$(BIN)/python benchmarks/certify.py

bench-report: $(VENV)/.test  ## seconds, bytes and memory of a report, up to ten million rounds
	$(BIN)/python benchmarks/report.py

certify-streams: $(VENV)/.core  ## certificates on every stream of the data folder (UNDRIFT_DATA); CERTIFY="--rows 20000" for more rows
	$(BIN)/python benchmarks/certify_streams.py --write docs/theory/certified-streams.md $(or $(CERTIFY),--rows 8000)

stress-accuracy: $(VENV)/.test
	$(BIN)/python tests/accuracy/stress.py --write docs/accuracy.md

build: $(VENV)/.test

# What a step of the torch optimizers costs, and how well they train; minutes each.
bench-adam: $(VENV)/.test
	$(PIP) schedulefree
	$(BIN)/python benchmarks/optimizers.py

quality-adam: $(VENV)/.test
	$(PIP) matplotlib schedulefree scikit-learn
	$(BIN)/python benchmarks/training.py --json build/training.json --figure build/training.png

# What takes long. A part that fails does not keep the others from running.
nightly:
	$(MAKE) --keep-going test test-levels test-neon wheels newest lowest fuzz sanitize mutants stress attack test-hosts

test-levels: $(VENV)/.test  ## every test at every kernel level of this machine but the best, which make test uses
	for level in $$($(BIN)/python -c "from undrift import kernels; print(*kernels.levels()[1:])"); do \
	    UNDRIFT_KERNELS=$$level $(PYTEST) -n 2 --dist loadgroup || exit 1; \
	done

test-neon: $(VENV)/.test  ## the kernels of arm64 under qemu, where it and a cross compiler are installed
	$(BIN)/python tests/stress/neon_level.py

attack: $(VENV)/.test  ## threads, kill -9, two writers, full disks, planted links, forged files, bombs; ATTACK="--only fleet" for a part
	$(BIN)/python tests/stress/attack.py $(or $(ATTACK),--write docs/survives.md)

locks: $(VENV)/bin/python  ## resolve locks/ again: the newest versions inside the published ranges, for every Python
	$(BIN)/python $(INSTALL) packaging
	$(BIN)/python tools/locks.py

newest: .venv-newest/bin/python  ## every test with the newest versions inside the published ranges; NEWEST=tests/cli for a part
	$(call locked,held) .venv-newest/bin/python $(INSTALL) --upgrade --upgrade-strategy eager --editable ".[cli,test]"
	.venv-newest/bin/python tools/locks.py --compare test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-newest/bin/python -m pytest -n 2 --dist loadgroup $(NEWEST)

# Every extra that users install but torch and Spark, whose old versions bring gigabytes or need old Pythons; what those
# packages depend on is as new as it can be. Warnings of old packages about new ones do not count.
LOWEST_EXTRAS := serve,river,sklearn,optax,sweep
LOWEST_TESTS  := tests/cli tests/run tests/serve tests/report tests/online tests/forecast tests/contract tests/fleet \
    tests/adapters/test_optax.py tests/adapters/test_river.py tests/adapters/test_sklearn.py tests/test_files.py
comma := ,
lowest: .venv-lowest/bin/python  ## tests with the lowest versions inside the published ranges; LOWEST=tests/cli for a part
	.venv-lowest/bin/python $(INSTALL) packaging
	.venv-lowest/bin/python tools/locks.py --lowest $(subst $(comma), ,$(LOWEST_EXTRAS)) > .venv-lowest/lowest.txt
	PIP_CONSTRAINT=.venv-lowest/lowest.txt PIP_BUILD_CONSTRAINT=.venv-lowest/lowest.txt \
	.venv-lowest/bin/python $(INSTALL) --editable ".[$(LOWEST_EXTRAS)]" "pytest!=9.2.0" pytest-xdist hypothesis packaging pyarrow
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -W default -n 2 --dist loadgroup \
	    $(or $(LOWEST),$(LOWEST_TESTS))

wheels: $(VENV)/.test  ## dist/: sdist, a wheel for Python 3.11, one for all later; each tried where no compiler is found
	$(BIN)/python tools/wheels.py

clean:
	rm -rf $(VENV) .venv-spark .venv-clients .venv-hosts .venv-peers .venv-newest .venv-lowest build dist

# Environments. Without a new enough Python or a compiler, one sentence says so.
define check_machine
@$(PYTHON) -c 'import sys; sys.exit("undrift needs Python 3.11 or newer, this is %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
@for c in $${CXX:-c++ g++ clang++}; do if command -v $$c > /dev/null; then exit 0; fi; done; \
    echo "undrift needs a C++17 compiler: apt install g++ (Debian, Ubuntu), xcode-select --install (macOS)" >&2; exit 1
endef

$(VENV)/bin/python .venv-newest/bin/python .venv-lowest/bin/python .venv-spark/bin/python .venv-clients/bin/python .venv-hosts/bin/python .venv-peers/bin/python:
	$(check_machine)
	$(PYTHON) -m venv $(@:/bin/python=)

$(VENV)/.core: $(NATIVE) locks/test.txt | $(VENV)/bin/python
	$(PIP) --editable ".[serve]"
	touch $@

# One build serves both: with the test tools installed, the core is too.
$(VENV)/.test: $(NATIVE) locks/test.txt | $(VENV)/bin/python
	$(PIP) --editable ".[cli,test]"
	touch $(VENV)/.core $@

.venv-spark/.ready: $(NATIVE) locks/spark.txt | .venv-spark/bin/python
	$(call locked,spark) .venv-spark/bin/python $(INSTALL) --editable ".[test-spark]"
	touch $@

# torch first, from the lock: what depends on it then asks for nothing more. A client that cannot be installed is left out
# with a word, and its tests say so.
.venv-clients/.ready: $(NATIVE) locks/clients.txt | .venv-clients/bin/python
	$(call locked,clients) .venv-clients/bin/python $(INSTALL) torch
	$(call locked,clients) .venv-clients/bin/python $(INSTALL) --editable ".[torch,optax]" absl-py expecttest hypothesis pytest pytest-timeout
	for client in accelerate transformers lightning flax; do \
	    $(call locked,clients) .venv-clients/bin/python $(INSTALL) $$client || echo "$$client cannot be installed here; its tests are left out"; \
	done
	touch $@

# No lock: peers are compared as they are published.
.venv-peers/.ready: $(NATIVE) | .venv-peers/bin/python
	.venv-peers/bin/python $(INSTALL) --editable . statsforecast mlforecast lightgbm
	touch $@

# A host that cannot be installed is left out with a word, and its tests say so.
.venv-hosts/.ready: $(NATIVE) locks/hosts.txt | .venv-hosts/bin/python
	$(call locked,hosts) .venv-hosts/bin/python $(INSTALL) --editable ".[sklearn]" "pandas<3" hypothesis pytest pytest-timeout
	for host in sktime mlforecast skforecast; do \
	    $(call locked,hosts) .venv-hosts/bin/python $(INSTALL) $$host || echo "$$host cannot be installed here; its tests are left out"; \
	done
	touch $@
