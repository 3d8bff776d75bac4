# The commands people type. The build itself is described in CMakeLists.txt.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
SEEDS ?= 2000
COVERAGE_MIN ?= 95
JOBS := $(shell nproc 2>/dev/null || echo 2)

# Pass a compiler on only if one was asked for: make CC=clang.
COMPILER := $(if $(filter default undefined,$(origin CC)),,-DCMAKE_C_COMPILER=$(CC))
FLAGS ?=

# The makefiles that CMake writes must not inherit our variables and job slots.
CMAKE_BUILD := env -u MAKEFLAGS -u MAKELEVEL cmake --build $(BUILD) -j$(JOBS)

all: build

build: deps
	@said=$$(cmake -S . -B $(BUILD) $(COMPILER) $(FLAGS) 2>&1) || { echo "$$said"; exit 1; }
	@$(CMAKE_BUILD)

# The test of tools/tidy needs clang-format; without it, and without root, it is skipped.
check: build
	@tools/deps --if-root tidy
	@tests/run -b $(BUILD)

# Long and random, with real processes.
check-chaos: build
	@tests/run -b $(BUILD) $(BUILD)/chaos/* tests/live/chaos/*.sh

demo: build
	@examples/demo.sh $(BUILD)/tenure
	@echo
	@$(BUILD)/tenure sim --scenario pause-and-fence

# The fence alone, as one .c and one .h.
amalgamation:
	@tools/amalgamate $(BUILD)/amalgamation
	@echo "$(BUILD)/amalgamation/tenure_fence.c $(BUILD)/amalgamation/tenure_fence.h"

install: build
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

bench: deps
	@SEEDS=$(SEEDS) bench/run

deps:
	@tools/deps build

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
	@echo "make            build build/tenure"
	@echo "make check      build and run all tests"
	@echo "make check-chaos  random runs with real processes, stopped and killed"
	@echo "make demo       three candidates, killed, stopped and handed over; then a fence, simulated"
	@echo "make amalgamation  the fence alone, as one .c and one .h"
	@echo "make install    install below PREFIX (/usr/local), staged in DESTDIR"
	@echo "make bench      measure the simulator"
	@echo "make deps       check for needed packages; as root, install them"
	@echo "make coverage   branch coverage of src/core and src/fence, at least COVERAGE_MIN %"
	@echo "make tidy       check the house style; make format applies clang-format"
	@echo "make clean      remove the build directories"
	@echo "Variables: BUILD=build CC=clang FLAGS=-DTENURE_WERROR=OFF PREFIX= DESTDIR="

.PHONY: all build check check-chaos demo amalgamation install bench deps coverage tidy format clean
.PHONY: help
