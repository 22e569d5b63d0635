# A thin front: CMake builds (CMakePresets.json), ctest and pytest test, deploy/setup.sh sets up.
#
#   make test     set up, build, run every test          make demo     train digits on 2 servers, 2 trainers
#   make check    build, lint, run the tests without jobs
#   make asan     C tests under a sanitizer (tsan, ubsan)  make bench    benchmarks/run.py
#   make fuzz     mutants, FUZZ_SECONDS for each parser   make soak     faults at random for SOAK_SECONDS
#   make mutants  MUTANTS wrong programs, under asan and ubsan
#   make wheel    a wheel for glibc 2.28 in dist/         make notes    print what the newest release has
#   make lint     ruff, mypy, the schemas of files
#   make operators   docs/operators.md, operator.pyi    make abi      add what is new in the C API to the list that must stay true
#   make clean    forget what was built
#   make docs     the site, build/docs/html               make docs-links  check all links of the site
#   make image-test  build the image of deploy/Dockerfile, and train in it
#   make format   write every C and Python file anew in the one format  make format-check  say where that changes something
PRESET       ?= dev
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 3600
MUTANTS      ?= 200000
JOBS         ?= $(shell nproc)
# Files of tests at a time: their jobs wait more than they compute.
WORKERS      ?= $(shell echo $$(( 2 * $$(nproc) )))

BIN    := .venv/bin
PYTHON := $(CURDIR)/$(BIN)/python
STAMP  := .venv/setup.stamp
DEMO_STAMP := .venv/demo.stamp
export PYTHONPATH = $(CURDIR)/build/$(PRESET)/python
# Tests start Python some hundred times: each would compile the whole package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all setup build test check lint demo asan tsan ubsan bench fuzz mutants soak image-test wheel notes operators abi docs docs-links format format-check clean
all: build

setup: $(STAMP)
$(STAMP): deploy/setup.sh $(wildcard requirements/*.txt)
	deploy/setup.sh
# What is set up for the tests is enough for the demo.
$(DEMO_STAMP): deploy/setup.sh requirements/build.txt requirements/examples.txt
	$(if $(wildcard $(STAMP)),touch $@,deploy/setup.sh demo)

# $(call built,preset)
define built
$(BIN)/cmake --preset $(1) --log-level=WARNING
$(BIN)/cmake --build --preset $(1) --parallel $(JOBS)
endef

build: setup
	$(call built,$(PRESET))

test: build lint
	$(BIN)/ctest --preset $(PRESET) --parallel $(JOBS)
	timeout --kill-after=10 3000 $(PYTHON) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder tests/python

# Between two changes: the core and the simulator, beside the Python tests that start no job.
check: build lint
	@$(BIN)/ctest --preset $(PRESET) --parallel $(JOBS) >build/$(PRESET)/check.log 2>&1 & core=$$!; \
	$(PYTHON) -m pytest -q --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder -m "not mpi and not soak" tests/python; python=$$?; \
	wait $$core; core=$$?; tail -n 12 build/$(PRESET)/check.log; exit $$(( core || python ))

# $(call held,schema) files
held = $(BIN)/check-jsonschema --quiet --builtin-schema vendor.$(1)

# What finds faults in Python, and in files that other programs read, without running anything. pyproject.toml has the rules.
lint: setup
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy
	@$(call held,github-workflows) .github/workflows/*.yml
	@$(call held,github-issue-forms) $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@$(call held,github-issue-config) .github/ISSUE_TEMPLATE/config.yml
	@$(call held,dependabot) .github/dependabot.yml
	@$(call held,citation-file-format) --force-filetype yaml CITATION.cff

asan tsan ubsan: setup
	$(call built,$@)
	$(BIN)/ctest --preset $@ --parallel $(JOBS)

# Beside the ranks' programs nothing is built, and with less optimisation, unless the tests' build is there already.
demo: PRESET = $(if $(wildcard build/dev/python/trireme/_core*),dev,demo)
demo: $(DEMO_STAMP)
	$(call built,$(PRESET))
	$(PYTHON) -m trireme launch --servers 2 --trainers 2 examples/recognize_digits/demo.py

# What is measured is what users get.
bench: PRESET = release
bench: setup
	$(call built,release)
	$(PYTHON) benchmarks/run.py

# Programs that are well-formed and wrong, run. The output's last line names the one that failed; the file `mutant` holds it.
mutants: export UBSAN_OPTIONS = print_stacktrace=1
mutants: setup
	@set -e; for preset in asan ubsan; do \
	    $(BIN)/cmake --preset $$preset --log-level=WARNING; \
	    $(BIN)/cmake --build --preset $$preset --parallel $(JOBS) --target fuzz_run; \
	    echo "mutants: $(MUTANTS) under $$preset"; \
	    timeout 7200 build/$$preset/tests/fuzz/fuzz_run tests/fuzz/corpus/run -mutants=1:$$(( $(MUTANTS) + 1 )) \
	        -keep=build/$$preset/mutant >build/$$preset/mutants.log 2>&1 || { \
	        tail -n 60 build/$$preset/mutants.log; echo "mutants: failed under $$preset: build/$$preset/mutant"; exit 1; }; \
	    echo "mutants: under $$preset: $$(tail -n 1 build/$$preset/mutants.log)"; \
	done

fuzz: build mutants
	deploy/setup.sh fuzz
	$(call built,fuzz)
	@set -e; for program in build/fuzz/tests/fuzz/fuzz_*; do \
	    name=$${program##*/fuzz_}; found=build/fuzz/corpus/$$name; mkdir -p $$found; \
	    echo "fuzz: $$name for $(FUZZ_SECONDS) s"; \
	    $$program -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -artifact_prefix=build/fuzz/$$name- \
	        $$found tests/fuzz/corpus/$$name; \
	done
	TRIREME_FUZZ_ROUNDS=$$(( $(FUZZ_SECONDS) * 10 )) TRIREME_FUZZ_SEED=$$$$ \
	    $(PYTHON) -m pytest -q --timeout=0 tests/python/test_mutations.py

# Tests of minutes, then jobs of fresh seeds; both to their ends.
soak: build
	@failed=0; \
	TRIREME_SOAK_SECONDS=$$(( $(SOAK_SECONDS) / 40 + 1 )) $(PYTHON) -m pytest -m soak --timeout=0 tests/python || failed=1; \
	TRIREME_SIMULATED_JOBS=100 TRIREME_SCRIPTS=2000 $(PYTHON) -m pytest -q --timeout=0 tests/python/test_simulated_jobs.py \
	    tests/python/test_scripts_in_jobs.py || failed=1; \
	PRESET=$(PRESET) $(PYTHON) tests/soak/soak.py --seconds $(SOAK_SECONDS) || failed=1; \
	exit $$failed

# Half an hour, and the network: a Debian 12, what the image installs, a build, a training.
image-test: build
	@[ "$$(id -u)" = 0 ] || { echo "image-test: root makes the file system of a Debian; start it as root"; exit 1; }
	deploy/setup.sh image
	$(PYTHON) -m pytest -rs -m soak -k image --timeout=0 tests/python/test_deploy.py

wheel: setup
	deploy/wheel.sh

# The newest released section of the changelog, for a tag and a release (docs/releasing.md).
notes:
	@awk '/^## / { sections += !/Unreleased/ } sections == 1' CHANGELOG.md

operators: build
	$(PYTHON) docs/make_operators.py
	$(PYTHON) docs/make_stubs.py

abi: build
	$(PYTHON) docs/make_abi.py

# A warning is an error: a link that leads nowhere is one.
docs: build
	rm -rf build/docs/html
	$(PYTHON) -m sphinx -q -E -W --keep-going -j $(JOBS) -c docs -d build/docs/pages . build/docs/html
	@echo "docs: build/docs/html/index.html"

docs-links: docs
	$(PYTHON) docs/links.py build/docs/html

format: setup
	git ls-files -z '*.c' '*.h' | xargs -0 -n 32 -P $(JOBS) $(BIN)/clang-format -i
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

format-check: setup
	git ls-files -z '*.c' '*.h' | xargs -0 -n 32 -P $(JOBS) $(BIN)/clang-format --dry-run -Werror
	$(BIN)/ruff check --select I
	$(BIN)/ruff format --check

clean:
	rm -rf build dist
