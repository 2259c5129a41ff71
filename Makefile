# The project's commands. Each installs what it needs first (Debian 12, root or sudo); `make help` lists them.

JOBS ?= $(shell nproc)
FUZZ_RUNS ?= 1000000
FUZZ_SEED ?= 0
LAYERS ?=
FILES ?=
BENCH ?= fashion-flux --opt lossless

space := $(subst ,, )
.DEFAULT_GOAL := build
.PHONY: help build bench-compare bundle package wheel demo quality images diagrams docs test asan asan-python fuzz format lint clean goldens bootstrap bootstrap-test
.PHONY: bootstrap-python bootstrap-tools bootstrap-docs bootstrap-cuda bootstrap-peers
.NOTPARALLEL:  # two commands would wait for each other at apt's lock

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: build/release/build.ninja  ## build the program for this machine: build/release/headroom (default)
	cmake --build --preset release --parallel $(JOBS) --target headroom

bundle: bootstrap-test build/release/build.ninja  ## pack the program and the GPU tests for another machine: dist/headroom.tar.xz, and what they read: dist/headroom_data.tar.xz
	$(call with_tests,release)
	cmake --build --preset release --parallel $(JOBS) --target headroom backends_tests kernels_tests run_tests pipelines_tests train_tests e2e_tests graph_fuzz
	scripts/bundle.sh build/release dist/headroom.tar.xz

package: build/release/build.ninja  ## pack program, library and documents into dist/, as a .deb and as a .tar.xz, and try both
	$(call with_cuda,release)
	$(call with_all_units,release)
	cmake --build --preset release --parallel $(JOBS) --target headroom libheadroom
	rm -f build/release/headroom_*.deb build/release/headroom-*.tar.xz dist/headroom_*.deb dist/headroom-*.tar.xz
	cd build/release && cpack
	mkdir -p dist && mv build/release/headroom_*.deb build/release/headroom-*.tar.xz dist/
	scripts/try_package.sh dist

wheel: bootstrap-python build/release/build.ninja  ## pack the Python package, with the library built for all machines, into dist/
	$(call with_cuda,release)
	$(call with_all_units,release)
	cmake --build --preset release --parallel $(JOBS) --target libheadroom
	scripts/make_wheel.sh build/release/libheadroom.so dist

demo: build  ## draw from prompts, make a video from a video, and measure every optimization on the model that ships, with a dashboard, into out/demo
	mkdir -p out/demo
	build/release/headroom run fashion-flux --prompt "an ankle boot" --prompt "a red dress" --opt fast --out out/demo/prompt.png
	build/release/headroom stream live-ink --input scene:64x64@25:100 --out out/demo/stream.y4m --save out/demo/stream.json
	build/release/headroom ladder models/fashion-flux --batch 2 --max-rounds 4 --out out/demo
	build/release/headroom report out/demo --out out/demo

quality: build  ## the same, judging quality on 500 images, into out/quality
	build/release/headroom ladder models/fashion-flux --quality 500 --out out/quality

bench-compare: build  ## is this checkout slower than revision BASE? BENCH="..." are the arguments of `headroom bench`
	@JOBS=$(JOBS) scripts/bench_compare.sh "$(BASE)" $(BENCH)

images: build diagrams  ## draw the documents' pictures again, of the models that ship and of the committed results, into docs/images
	mkdir -p out/images
	build/release/headroom run fashion-flux --labels all --opt baseline --out out/images/baseline.png
	build/release/headroom run fashion-flux --labels all --opt fast --out out/images/fast.png
	build/release/headroom run fashion-flux-turbo --labels all --opt fast --out out/images/turbo.png
	scripts/contact_sheet.py docs/images/fashion_flux.svg "a T-shirt,trousers,a pullover,a dress,a coat,a sandal,a shirt,a sneaker,a bag,an ankle boot" \
	  "28 steps, baseline=out/images/baseline.png" "28 steps, fast=out/images/fast.png" "turbo: 4 steps, fast=out/images/turbo.png"
	build/release/headroom report bench/results/cpu/ladder.json bench/results/cpu/peers --format svg --out out/images
	build/release/headroom report bench/results/cpu/fewer_steps --format svg --out out/images/fewer_steps
	cp out/images/speedup_comparison-fashion-flux-32x32-b10-28steps.svg docs/images/speedup_comparison.svg
	cp out/images/backend_comparison-fashion-flux-32x32-b20-forward.svg docs/images/backend_comparison.svg
	cp out/images/fewer_steps/frechet_time-32x32-b10.svg docs/images/frechet_time.svg

diagrams: bootstrap-docs  ## render the documents' diagrams, docs/images/*.dot, to SVG
	for diagram in docs/images/*.dot; do dot -Tsvg $$diagram -o $${diagram%.dot}.svg || exit 1; done

docs: bootstrap-docs  ## make a site of the documents: out/docs/index.html
	scripts/make_docs.sh out/docs

test: bootstrap-test build/release/build.ninja  ## build and run every test
	$(call with_tests,release)
	cmake --build --preset release --parallel $(JOBS)
	ctest --preset release --parallel $(JOBS)

asan: bootstrap-test build/asan/build.ninja  ## build and run the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer, of all layers or of LAYERS
	$(call with_tests,asan)
	cmake --build --preset asan --parallel $(JOBS) --target $(if $(LAYERS),$(LAYERS:%=%_tests),unit_tests)
	ctest --preset asan --parallel $(JOBS) $(if $(LAYERS),--tests-regex '^($(subst $(space),|,$(strip $(LAYERS))))[.]')

asan-python: bootstrap-python build/release/build.ninja  ## run the Python tests on a module built under these sanitizers
	cmake --build --preset release --parallel $(JOBS) --target headroom libheadroom
	scripts/asan_python.sh build/release/libheadroom.so

fuzz: bootstrap-tools build/fuzz/build.ninja  ## feed FUZZ_RUNS (a million) made-up files to the parsers; FUZZ_SEED=n repeats a run
	cmake --build --preset fuzz --parallel $(JOBS)
	$(call run_fuzzer,safetensors_fuzz,tests/fuzz/safetensors)
	$(call run_fuzzer,gguf_fuzz,tests/fuzz/gguf)
	$(call run_fuzzer,single_file_fuzz,tests/fuzz/single_files,-max_len=64)
	$(call run_fuzzer,json_fuzz,tests/fuzz/json)
	$(call run_fuzzer,read_image_fuzz,tests/goldens/media/pictures)
	$(call run_fuzzer,y4m_fuzz,tests/fuzz/y4m)
	$(call run_fuzzer,config_fuzz,tests/fuzz/configs)
	$(call run_fuzzer,request_fuzz,tests/fuzz/requests)
	$(call run_fuzzer,trace_fuzz,tests/fuzz/traces)

format: bootstrap-tools  ## rewrite the sources as .clang-format says
	scripts/format.sh -i

lint: bootstrap-test bootstrap-tools build/dev/build.ninja  ## check words, format and clang-tidy; FILES="src/a.cpp ..." checks those alone
	$(call with_tests,dev)
	python3 tests/structure/check_words.py .
	scripts/format.sh --dry-run -Werror $(FILES)
	cmake --build --preset dev --target build_info
	scripts/lint.py --jobs $(JOBS) $(FILES)

clean:  ## remove everything built and written
	rm -rf build out

build/%/build.ninja: CMakePresets.json | bootstrap
	cmake --preset $*

# A program that is built first is for this machine alone; tests, bundles and packages configure it again.
build/release/build.ninja: CMakePresets.json | bootstrap
	cmake --preset release $(if $(wildcard build/release/CMakeCache.txt),,-DHEADROOM_VECTOR_UNITS=NATIVE)

bootstrap:
	@scripts/bootstrap.sh

bootstrap-test:
	@scripts/bootstrap.sh test

bootstrap-python:
	@scripts/bootstrap.sh python

bootstrap-tools:
	@scripts/bootstrap.sh tools

bootstrap-docs:
	@scripts/bootstrap.sh docs

goldens: bootstrap-peers  ## make the goldens of tests again, by the programs that they come from, into out/goldens, and compare
	scripts/make_goldens.sh

bootstrap-peers:  ## install PyTorch, diffusers and other peers from PyPI into your home, for the scripts of bench/ and for goldens
	@scripts/bootstrap.sh peers

bootstrap-cuda:  ## install a CUDA toolkit from PyPI into your home, where this machine has none: any machine then builds for GPUs
	@scripts/bootstrap.sh cuda

# The inputs that a fuzzer finds are kept next to it.
define run_fuzzer
	mkdir -p build/fuzz/$(1)_inputs
	cd build/fuzz && ./$(1) $(1)_inputs $(CURDIR)/$(2) \
	  -runs=$(FUZZ_RUNS) -seed=$(FUZZ_SEED) -max_len=4096 $(3) -print_final_stats=1
endef

# Builds for other machines include GPUs wherever there is a CUDA toolkit (make bootstrap-cuda installs one); builds for
# this machine alone do so only where it has a GPU. A build that was configured before the toolkit came is configured
# again.
with_cuda = @if grep -qs '^HEADROOM_CUDA:STRING=AUTO' build/$(1)/CMakeCache.txt || \
  { grep -qs '^HEADROOM_CUDA:STRING=TOOLKIT' build/$(1)/CMakeCache.txt && \
    ! grep -qs '^CUDAToolkit_NVCC_EXECUTABLE:FILEPATH=/' build/$(1)/CMakeCache.txt; }; then \
  cmake --preset $(1) -DHEADROOM_CUDA=TOOLKIT; fi
# Tests hold the code for GPUs to what it can show without one, and the kernels for CPUs of all vector units.
define with_tests
	$(call with_cuda,$(1))
	@grep -qs '^HEADROOM_TESTS:BOOL=ON' build/$(1)/CMakeCache.txt || cmake --preset $(1) -DHEADROOM_TESTS=ON -DHEADROOM_VECTOR_UNITS=ALL
endef
with_all_units = @grep -qs '^HEADROOM_VECTOR_UNITS:STRING=ALL' build/$(1)/CMakeCache.txt || cmake --preset $(1) -DHEADROOM_VECTOR_UNITS=ALL
