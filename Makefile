# The commands people type. The build itself is described in CMakeLists.txt.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
SEEDS ?= 2000
COVERAGE_MIN ?= 95
FUZZ_SECONDS ?= 3600
CHECK_JOBS ?= 4
ENGINE_RUNS ?= 3
ENGINE_HANDOVERS ?= $(TENURE_HANDOVERS)
ENGINE_JOBS ?= 3
JOBS := $(shell nproc 2>/dev/null || echo 2)

# Pass a compiler on only if one was asked for: make CC=clang.
COMPILER := $(if $(filter default undefined,$(origin CC)),,-DCMAKE_C_COMPILER=$(CC))
FLAGS ?=

# The makefiles that CMake writes must not inherit our variables and job slots.
CMAKE_BUILD := env -u MAKEFLAGS -u MAKELEVEL cmake --build $(BUILD) -j$(JOBS)

all: build

build: deps
	@said=$$(cmake -S . -B $(BUILD) $(COMPILER) $(FLAGS) 2>&1) || { echo "$$said"; exit 1; }; \
	echo "$$said" | grep 'Left out:' || :
	@$(CMAKE_BUILD)

# Tests that need a tool or a server are skipped without it, unless root can be helped. Several
# suites at once: most of them wait for a TTL most of the time.
check: build
	@tools/deps --if-root tidy check servers web
	@tests/run -b $(BUILD) -j $(CHECK_JOBS)

# By itself: its terms of one second want a machine that has time for them.
check-python: build
	@tools/deps --if-root check servers
	@tests/run -b $(BUILD) tests/bindings/python.sh

# The same for Go, under its race detector.
check-go: build
	@tools/deps --if-root go servers
	@tests/run -b $(BUILD) tests/bindings/go.sh

# On servers that no Debian package has; tools/servers installs or builds them, once per machine.
# ENGINE_RUNS=50 for long chaos, ENGINE_HANDOVERS=100 for long mixed elections (each engine has a
# default of its own); both give a suite two hours instead of half of one.
ENGINE_TIMEOUT = $(if $(ENGINE_HANDOVERS)$(filter-out 1 2 3,$(ENGINE_RUNS)),7200,1800)
check-engines: build
	@tools/deps --if-root check servers engines go
	@tools/servers
	@TENURE_CHAOS_RUNS=$(ENGINE_RUNS) TENURE_HANDOVERS=$(ENGINE_HANDOVERS) \
		TENURE_TEST_TIMEOUT=$${TENURE_TEST_TIMEOUT:-$(ENGINE_TIMEOUT)} \
		tests/run -b $(BUILD) -j $(ENGINE_JOBS) tests/engines/*.sh tests/engines/chaos/*.sh

# Long and random, with real processes.
check-chaos: build
	@tools/deps --if-root servers
	@TENURE_STRIDE=2 TENURE_TEST_TIMEOUT=1800 tests/run -b $(BUILD) $(BUILD)/chaos/* \
		tests/cli/nomem.sh tests/live/chaos/*.sh

# An hour each; the inputs found so far are kept and tried first. Needs clang.
fuzz:
	@tools/deps build ci
	@cmake -S . -B build-fuzz -DCMAKE_C_COMPILER=clang >/dev/null
	@env -u MAKEFLAGS -u MAKELEVEL cmake --build build-fuzz -j$(JOBS) --target fuzzers >/dev/null
	@tools/fuzz build-fuzz/fuzz $(FUZZ_SECONDS)

# The first thing that people run: it builds the command and nothing else, without the engines that
# it does not use. Where there is a build already, that is used.
DEMO = $(if $(wildcard $(BUILD)/CMakeCache.txt),$(BUILD),build-demo)
DEMO_FLAGS := -DCMAKE_BUILD_TYPE=Debug -DTENURE_TESTS=OFF -DTENURE_SANDBOX=OFF -DTENURE_HTTP=OFF \
	-DTENURE_TLS=OFF -DTENURE_ETCD=OFF -DTENURE_POSTGRES=OFF -DTENURE_ZOOKEEPER=OFF
demo:
	@tools/deps build
	@[ -e $(DEMO)/CMakeCache.txt ] || echo "building the command tenure in $(DEMO)"
	@said=$$(cmake -S . -B $(DEMO) $(COMPILER) $(FLAGS) \
		$(if $(filter build-demo,$(DEMO)),$(DEMO_FLAGS)) 2>&1) || { echo "$$said"; exit 1; }
	@said=$$(env -u MAKEFLAGS -u MAKELEVEL cmake --build $(DEMO) -j$(JOBS) --target tenure 2>&1) || \
		{ echo "$$said"; exit 1; }
	@examples/demo.sh $(DEMO)/tenure
	@echo
	@$(DEMO)/tenure sim --scenario pause-and-fence

# The sources as a tarball, and Debian packages of them, in build-dist and build-deb.
dist:
	@tools/dist build-dist

deb:
	@tools/deps deb
	@tools/deb build-deb

# The tarball builds without git; the packages are installed, used and removed in a bare Debian 12;
# and there a newcomer clones, checks and follows the quick starts. NEWCOMER_CHECK= leaves all but a
# few suites of the check there out, and saves an hour.
NEWCOMER_CHECK ?= all
check-deb: build
	@tools/deps --if-root deb
	@TENURE_NEWCOMER_CHECK="$(NEWCOMER_CHECK)" TENURE_TEST_TIMEOUT=14400 tests/run -b $(BUILD) \
		tests/packaging/*.sh

# The fence alone, as one .c and one .h.
amalgamation:
	@tools/amalgamate $(BUILD)/amalgamation
	@echo "$(BUILD)/amalgamation/tenure_fence.c $(BUILD)/amalgamation/tenure_fence.h"

# What is installed for good is found by the linker from then on.
install: build
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

# tenured beside its peers, and work with a fence beside work without; about ten minutes.
# BENCH_RUNS=1 BENCH_SECONDS=0.5 for a first look.
bench: deps
	@tools/deps --if-root servers
	@tools/deps bench
	@bench/peers
	@$(MAKE) --no-print-directory bench-fences

# Ours beside the engines' own clients, hurt in the same ways; about eight minutes for each engine.
compare: build
	@tools/deps --if-root servers go engines
	@bench/compare/run -b $(BUILD)

# The simulator and tenure_token.
bench-sim: deps
	@SEEDS=$(SEEDS) bench/run

# Of the unit tests and of every verb.
valgrind: build
	@tools/deps valgrind
	@tests/run -b $(BUILD) tests/valgrind/*.sh

# What a fence costs at each receiver.
bench-fences: build
	@tools/deps --if-root servers
	@bench/fences $(BUILD)

# Of tenure run on the embedded store, with 1 and with 100 waiting.
bench-handover: build
	@$(BUILD)/bench/handover

# The pictures of the documents, anew; pngquant makes them small.
screenshots: build
	@tools/deps web pictures
	@tools/screenshots $(BUILD)

# Client libraries of engines are optional: only root is helped to them.
deps:
	@tools/deps build
	@tools/deps --if-root optional

coverage:
	@tools/deps build coverage
	@COVERAGE_MIN=$(COVERAGE_MIN) tools/coverage

tidy:
	@tools/deps tidy
	@tools/tidy

format:
	@tools/deps tidy
	@tools/format

clean:
	@rm -rf build build-*

help:
	@echo "make            build build/tenure and build/tenured"
	@echo "make check      build, and run the tests that are not named below"
	@echo "make check-python  the Python package: its wheel, installed, and its tests"
	@echo "make check-go   the Go module: its tests under the race detector"
	@echo "make check-engines  the stores on S3 and others, on their real servers"
	@echo "make check-deb  the tarball and the packages, in a bare Debian 12"
	@echo "make check-chaos  random runs with real processes, stopped and killed"
	@echo "make fuzz       FUZZ_SECONDS (3600) of hostile input for each parser; needs clang"
	@echo "make demo       three candidates, killed, stopped and handed over; then a fence, simulated"
	@echo "make amalgamation  the fence alone, as one .c and one .h"
	@echo "make install    install below PREFIX (/usr/local), staged in DESTDIR"
	@echo "make dist       the sources as a tarball, in build-dist"
	@echo "make deb        Debian packages, in build-deb"
	@echo "make bench-fences  measure what a fence costs at each receiver; part of make bench"
	@echo "make bench-handover  measure how soon the next one leads, and what waiting costs"
	@echo "make valgrind   the unit tests and every verb under valgrind"
	@echo "make bench      tenured beside etcd, ZooKeeper, Redis, PostgreSQL and the least it must do"
	@echo "make compare    libtenure beside the engines' own clients, hurt in the same ways"
	@echo "make bench-sim  measure the simulator and tenure_token"
	@echo "make deps       check for needed packages; as root, install them"
	@echo "make coverage   branch coverage of src/core and src/fence, at least COVERAGE_MIN %"
	@echo "make tidy       check the house style; make format applies clang-format"
	@echo "make screenshots  make the pictures in docs/pictures anew"
	@echo "make clean      remove the build directories"
	@echo "Variables: BUILD=build CHECK_JOBS=4 CC=clang FLAGS=-DTENURE_WERROR=OFF PREFIX= DESTDIR="

.PHONY: all build check check-python check-go check-engines check-deb check-chaos valgrind demo
.PHONY: amalgamation install dist deb
.PHONY: bench bench-sim bench-fences bench-handover compare
.PHONY: screenshots deps coverage tidy format clean fuzz help
