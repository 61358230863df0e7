# Two commands do everything on a machine with Python >= 3.11 (venv), a C++17 compiler and make:
#   make demo      build, then learn a real stream from the command line: a summary, and a report to open in a browser
#   make test      build, then lint, types, the import contract and the tests that a change needs
# Both install the versions in locks/. For those who change undrift (CONTRIBUTING.md says more):
#   make test-all  make test and everything else: torch, jax and their clients, hosts, Spark, the site, wheels, every kernel level
#   make docs      the site, in build/site
#   make wheels    the sdist and the wheels, each tried in a clean environment, in dist/
#   make nightly   all that takes long; its parts: python -m tools
#   make clean     remove every environment and everything built
# Benchmarks: python -m benchmarks
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard src/undrift/kernels/native/*) CMakeLists.txt pyproject.toml
# The environment reaches pip's isolated builds as well, where --constraint does not; later pips read the second variable.
locked  = PIP_CONSTRAINT=locks/$(1).txt PIP_BUILD_CONSTRAINT=locks/$(1).txt
INSTALL := -m pip install --quiet --disable-pip-version-check
# undrift itself as compiled once by tools/editable.py, then what its extras name: $(call install,environment,lock,extras)
define install
$(call locked,$(2)) $(1)/bin/python $(INSTALL) --force-reinstall --no-deps build/editable/undrift-*.whl
$(call locked,$(2)) $(1)/bin/python $(INSTALL) "undrift[$(3)]"
endef
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST  := -m pytest -n 2 --dist loadgroup

.PHONY: demo test test-all docs wheels nightly clean
demo: $(VENV)/.core
	$(BIN)/undrift demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(THREADS) $(BIN)/python $(PYTEST)

# Java is the one thing that pip cannot install, so Spark is left out where it is missing.
test-all: test $(VENV)/.all .venv-networks/.ready .venv-hosts/.ready
	$(THREADS) $(BIN)/python $(PYTEST) --suite rest tests
	.venv-networks/bin/python -m mypy src/undrift/torch/*.py src/undrift/optax/*.py
	$(THREADS) .venv-networks/bin/python $(PYTEST) --timeout 300 tests/torch tests/optax src/undrift/torch src/undrift/optax
	$(THREADS) .venv-hosts/bin/python -m pytest --timeout 900 tests/hosts
	if command -v java > /dev/null || test -n "$$JAVA_HOME"; then \
	    $(MAKE) .venv-spark/.ready && .venv-spark/bin/python -m pytest --timeout 240 -x tests/spark; \
	else \
	    echo "no Java here, so the tests on Spark are left out: apt install openjdk-17-jre-headless"; \
	fi

docs: $(VENV)/.all
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheels: $(VENV)/.all
	$(BIN)/python tools/wheels.py

nightly: $(VENV)/.all
	$(BIN)/python -m tools nightly

clean:
	rm -rf $(VENV) .venv-*/ build dist

# Environments. Without a new enough Python or a compiler, one sentence says so.
define check_machine
@$(PYTHON) -c 'import sys; sys.exit("undrift needs Python 3.11 or newer, this is %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
@for c in $${CXX:-c++ g++ clang++}; do if command -v $$c > /dev/null; then exit 0; fi; done; \
    echo "undrift needs a C++17 compiler: apt install g++ (Debian, Ubuntu), xcode-select --install (macOS)" >&2; exit 1
endef

$(VENV)/bin/python .venv-networks/bin/python .venv-hosts/bin/python .venv-spark/bin/python:
	$(check_machine)
	$(PYTHON) -m venv $(@:/bin/python=)

# The wheel of an editable install knows the modules by name, so that it is made again when one comes or goes.
FORCE:
build/modules.txt: FORCE
	@mkdir -p build
	@find src/undrift -name '*.py' | sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# The one compilation, whose wheel all environments install.
build/editable/.built: $(NATIVE) build/modules.txt tools/editable.py | $(VENV)/bin/python
	$(call locked,test) $(BIN)/python tools/editable.py
	touch $@

$(VENV)/.core: build/editable/.built locks/test.txt
	$(call install,$(VENV),test,serve)
	touch $@

# With the test tools installed, the core is too.
$(VENV)/.test: build/editable/.built locks/test.txt
	$(call install,$(VENV),test,test)
	touch $(VENV)/.core $@

$(VENV)/.all: build/editable/.built locks/test.txt
	$(call install,$(VENV),test,test-all)
	touch $(VENV)/.core $(VENV)/.test $@

.venv-spark/.ready: build/editable/.built locks/spark.txt | .venv-spark/bin/python
	$(call install,.venv-spark,spark,test-spark)
	touch $@

# torch first, from the lock: what depends on it then asks for nothing more.
.venv-networks/.ready: build/editable/.built locks/networks.txt | .venv-networks/bin/python
	$(call locked,networks) .venv-networks/bin/python $(INSTALL) torch
	$(call install,.venv-networks,networks,test-networks)
	touch $@

.venv-hosts/.ready: build/editable/.built locks/hosts.txt | .venv-hosts/bin/python
	$(call install,.venv-hosts,hosts,test-hosts)
	touch $@
