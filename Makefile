# Each target installs the Debian packages that it misses, then calls CMake. What a target says
# about its own work goes to stderr, so that `make run` writes only the generated text to stdout.
.SILENT:

BUILD        ?= build
PREFIX       ?= /usr/local
DESTDIR      ?=
JOBS         ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PROMPT       ?= Once upon a time
# A new build folder gets the CUDA backend where there is a GPU; CUDA=1 builds it elsewhere too (nvcc
# alone is needed), and CUDA=0 leaves it out.
CUDA         ?=
HAS_GPU       = $(shell { test -e /dev/nvidia0 || nvidia-smi -L; } >/dev/null 2>&1 && echo 1)
CUDA_OPTION   = -DLINNET_CUDA=$(if $(filter 1,$(or $(CUDA),$(HAS_GPU))),ON,OFF)
# `make run` builds kernels for this processor alone; what other targets build runs on others, too.
CPU           = all

# A sanitizer's report needs lines alone; whole debug information would take more disk.
CHECK_FLAGS = -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo \
              -DCMAKE_C_FLAGS_RELWITHDEBINFO='-O2 -gline-tables-only -DNDEBUG' \
              -DLINNET_OPENAI_VENV='$(abspath $(BUILD))/openai-venv'
# One more than there are jobs, as tests of the server wait most of their time; JOBS=1 means one.
CTEST       = ctest --output-on-failure --timeout 1800 -j $$(($(JOBS) > 1 ? $(JOBS) + 1 : 1))
ALL_CPUS    = ! grep -q '^LINNET_CPU:STRING=native' $(BUILD)/CMakeCache.txt || cmake -DLINNET_CPU=all $(BUILD) >&2
COMPILE     = cmake --build $(BUILD) -j $(JOBS)
SOURCES     = $(shell find src include tests examples bench tools -name '*.c' -o -name '*.h')

.PHONY: all run tests test test-clients test-faults test-hostile test-ranks test-web test-python wheel deb test-deb check fuzz install format clean setup setup-test setup-check setup-deb setup-wheel configure \
        check-format check-tidy check-cppcheck check-asan check-tsan check-neon

# The program and both libraries.
all: configure
	$(ALL_CPUS)
	$(COMPILE) --target linnet linnet_static linnet_shared >&2

# The prompt reaches the program as it was given, with quotation marks and dollars.
run: CPU = native
run: export LINNET_PROMPT = $(value PROMPT)
run: configure
	$(COMPILE) --target linnet >&2
	$(BUILD)/linnet run -p "$$LINNET_PROMPT" -n 200

# Everything: tests and benchmarks as well.
tests: setup-test configure
	$(ALL_CPUS)
	grep -q '^LINNET_TESTS:BOOL=ON' $(BUILD)/CMakeCache.txt || cmake -DLINNET_TESTS=ON $(BUILD) >&2
	$(COMPILE) >&2

test: tests
	$(CTEST) --test-dir $(BUILD)

# Every allocation and every system call of commands and of the server fails in turn, for some minutes;
# `make test` has a sample of them.
test-faults: tests
	LINNET_FAULTS=all ctest --verbose --timeout 1800 --test-dir $(BUILD) -R '^faults/'

# 20,000 files and 5,000 requests, made from good ones; what is accepted is counted, and compared with
# what was reviewed. Then the load of 40 clients that cancel, LOAD seconds long.
LOAD = 120
test-hostile: all
	python3 -B tests/hostile/files.py $(BUILD)/linnet --golden=tests/hostile/files.accepted
	python3 -B tests/hostile/requests.py $(BUILD)/linnet --golden=tests/hostile/requests.accepted
	python3 -B tests/hostile/load.py $(BUILD)/linnet --seconds=$(LOAD)

# Every reference model on two and four MPI ranks beside one, ranks that are killed or stopped, and as root two
# hosts that are cut off from each other; for some ten minutes.
test-ranks: tests
	python3 -B tools/ranks/compare.py --linnet $(BUILD)/linnet --options "--backend cpu" --ranks 2,4 tests/golden/models/*
	python3 -B tools/ranks/faults.py --linnet $(BUILD)/linnet models/demo.gguf
	python3 -B tools/ranks/hosts.py --linnet $(BUILD)/linnet models/demo.gguf

# Clients from the Python package index against the demo model; not part of `make test`.
test-clients: all
	tests/clients/run.sh $(BUILD)/linnet $(BUILD)/clients $(CLIENTS)

# The web page in headless Chromium (Debian: chromium), with axe-core from the Python package index; not
# part of `make test`.
test-web: all
	tests/web/run.sh $(BUILD)/linnet $(BUILD)/web-test

# A wheel of the Python package, and the tests of one in a fresh environment, which need a package index; not part of
# `make test`, which has the tests of the package alone.
wheel: setup-wheel
	tools/wheel.sh $(BUILD)/dist >&2

test-python: wheel
	sh tests/python/fresh.sh $(abspath $(BUILD))/dist/linnet-*.whl $(CURDIR)

# Debian packages, in $(BUILD)-deb/deb; with LINNET_CUDA=ON in the environment that of the CUDA module, too.
deb: setup-deb
	tools/deb.sh $(BUILD)-deb >&2

# Needs lintian.
test-deb: deb
	sh tests/cli/debian.sh $(abspath $(BUILD))-deb/deb $(CURDIR)

install: all
	DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)" --strip >&2

setup:
	tools/setup.sh build

setup-test:
	tools/setup.sh test

setup-check:
	tools/setup.sh check

setup-deb:
	tools/setup.sh deb

setup-wheel:
	tools/setup.sh wheel

# A changed CMakeLists.txt makes the build configure itself again.
configure: setup
	if [ ! -e $(BUILD)/build.ninja ]; then \
	    cmake -S . -B $(BUILD) -G Ninja -DLINNET_TESTS=OFF -DLINNET_CPU=$(CPU) $(CUDA_OPTION) >&2; \
	elif [ -n '$(CUDA)' ]; then \
	    cmake $(CUDA_OPTION) $(BUILD) >&2; \
	fi

# ---- checks -------------------------------------------------------------------------------

check: check-format check-asan check-tidy check-cppcheck check-tsan check-neon

# Releases of clang-format disagree in details; the code is kept as 14 (Debian 12) formats it.
check-format: setup-check
	case "$$(clang-format --version)" in \
	*'version 14.'*) clang-format --dry-run -Werror $(SOURCES) ;; \
	*) echo 'check-format: skipped, it needs clang-format 14' ;; \
	esac

check-asan: setup-check
	cmake -S . -B $(BUILD)-asan -G Ninja $(CHECK_FLAGS) -DLINNET_SANITIZE=address,undefined >&2
	cmake --build $(BUILD)-asan -j $(JOBS) >&2
	$(CTEST) --test-dir $(BUILD)-asan

# The kernel may place a program where ThreadSanitizer cannot work; setarch -R prevents that. Threads
# share work alike in every instruction set's kernels: those of this processor are enough.
check-tsan: setup-check
	cmake -S . -B $(BUILD)-tsan -G Ninja $(CHECK_FLAGS) -DLINNET_SANITIZE=thread -DLINNET_CPU=native >&2
	cmake --build $(BUILD)-tsan -j $(JOBS) >&2
	if setarch -R true 2>/dev/null; then fixed='setarch -R'; fi; \
	$$fixed $(CTEST) --test-dir $(BUILD)-tsan

check-tidy: setup-check
	cmake -S . -B $(BUILD)-asan -G Ninja $(CHECK_FLAGS) -DLINNET_SANITIZE=address,undefined >&2
	find src -name '*.c' -print0 | \
	    xargs -0 -n 2 -P $(JOBS) clang-tidy --quiet -p $(BUILD)-asan

check-cppcheck: setup-check configure
	cppcheck --project=$(BUILD)/compile_commands.json --file-filter='src/*' -j $(JOBS) --quiet \
	    --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	    $(addprefix --suppress=,arrayIndexThenCheck autoVariables incorrectLogicOperator \
	        invalidFunctionArg varFuncNullUB) \
	    --suppress='arrayIndexOutOfBounds:src/backend/cpu/simd/*'

# The kernels for 64-bit Arm, on an emulated processor.
check-neon: setup-check
	cmake -S . -B $(BUILD)-neon -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake \
	    -DLINNET_BACKEND_ONLY=ON >&2
	cmake --build $(BUILD)-neon -j $(JOBS) >&2
	$(CTEST) --test-dir $(BUILD)-neon

fuzz: setup-check
	cmake -S . -B $(BUILD)-fuzz -G Ninja $(CHECK_FLAGS) -DLINNET_FUZZ=ON \
	    -DLINNET_SANITIZE=address,undefined >&2
	cmake --build $(BUILD)-fuzz -j $(JOBS) --target fuzz >&2
	for program in $(BUILD)-fuzz/tests/fuzz_*; do \
	    name=$${program##*/fuzz_}; \
	    mkdir -p $(BUILD)-fuzz/corpus/$$name $(BUILD)-fuzz/crashes; \
	    echo "== $$name, $(FUZZ_SECONDS) s; an input that crashes goes to $(BUILD)-fuzz/crashes" >&2; \
	    $$program -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2048 \
	        -print_final_stats=1 -artifact_prefix=$(BUILD)-fuzz/crashes/$$name- \
	        $(BUILD)-fuzz/corpus/$$name $$(ls -d tests/fuzz/corpus/$$name 2>/dev/null) || exit 1; \
	done

format: setup-check
	clang-format -i $(SOURCES)

clean:
	rm -rf $(BUILD) $(BUILD)-wheel $(BUILD)-deb $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz $(BUILD)-neon
