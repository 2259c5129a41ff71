#!/usr/bin/env bash
# Plants faults in a small tree and sees that the structure checks find each, and nothing in the tree without.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
source "$here/expect.sh"

check_includes() { "$here/check_includes.sh" "$tree/src" "$tree/layers.txt"; }
check_length() { "$here/check_file_length.sh" "$tree" 800 45; }
check_words() { python3 "$here/check_words.py" "$tree"; }
check_goldens() { python3 "$here/check_goldens.py" "$tree"; }
# plant FILE LINE: appends a line to a copy of the sound tree.
plant() {
  rm -rf "$tree/src"
  mkdir -p "$tree"/src/{base/text,ir,passes,kernels,testing,unknown}
  echo '#include <vector>' >"$tree/src/base/error.hpp"
  printf '#include "base/error.hpp"\n#include <vector>\n' >"$tree/src/ir/graph.hpp"
  printf '#include "ir/graph.hpp"\n#include "base/error.hpp"\n#include "passes/pass.hpp"\n' >"$tree/src/passes/pass.cpp"
  echo '#include "ir/graph.hpp"' >"$tree/src/kernels/kernel.hpp"
  if [[ $# -gt 0 ]]; then echo "$2" >>"$tree/src/$1"; fi
}
printf 'base\nir base\npasses ir\nkernels ir\ntesting kernels\n' >"$tree/layers.txt"

plant
expect 0 '' check_includes
plant ir/graph.hpp '#include "passes/pass.hpp"'
expect 1 'src/ir/graph.hpp:3: includes "passes/pass.hpp", but ir must not see passes' check_includes
plant passes/pass.cpp '  #  include   "kernels/kernel.hpp"  // beside, not below'
expect 1 'passes must not see kernels' check_includes
plant base/error.hpp '#include "ir/graph.hpp"'
expect 1 'base must not see ir' check_includes
plant kernels/kernel.hpp '#include <ir/graph.hpp>'
expect 1 'the project writes its own files in quotes' check_includes
plant ir/graph.hpp '#include "graph.hpp"'
expect 1 'does not start with a folder of src/' check_includes
plant kernels/kernel_test.cpp '#include "testing/compare.hpp"'
expect 0 '' check_includes
plant kernels/kernel.cpp '#include "testing/compare.hpp"'
expect 1 'kernels must not see testing' check_includes
plant passes/pass_test.cpp '#include "testing/compare.hpp"'
expect 1 'passes must not see testing' check_includes
plant unknown/file.cpp ''
expect 1 'src/unknown is no layer' check_includes
plant && find "$tree/src" -type f -delete
expect 1 'no source file' check_includes

check_output() { "$here/check_output.sh" "$tree/src"; }
plant passes/pass.cpp '  std::fprintf(stderr, "words of its own");  // not std::cout'
expect 0 '' check_output
plant passes/pass.cpp '  fmt::print("{}", name);'
expect 1 'passes/pass.cpp:4:  fmt::print' check_output
plant passes/pass.cpp '  std::cout << name;'
expect 1 'write with print_out()' check_output
plant passes/pass.cpp '  printf("%s", name);'
expect 1 'write with print_out()' check_output
plant && find "$tree/src" -type f -delete
expect 1 'no source file' check_output

check_devices() { python3 "$here/check_devices.py" "$tree/src"; }
plant passes/pass.cpp '  if (target.device->has_launches) return {};  // on an H200, with CUDA and kCuda'
expect 0 '' check_devices
plant passes/pass.cpp '  if (target.device != DeviceKind::kCuda) return {};'
expect 1 'passes/pass.cpp:4: names kCuda' check_devices
plant passes/pass.cpp '  constexpr bool kFast = target.compute_capability == 90;'
expect 1 'names compute_capability' check_devices
plant ir/graph.hpp '  return {.declined = "this // is slow on a GPU"};'
expect 1 'ir/graph.hpp:3: names GPU' check_devices
plant passes/pass_test.cpp '  const Target target{.device = DeviceKind::kCuda};'
expect 0 '' check_devices
plant kernels/kernel.cpp '  return DeviceKind::kCuda;'
expect 0 '' check_devices
plant && find "$tree/src" -type f -delete
expect 1 'has none of the layers' check_devices

check_ops() { python3 "$here/check_ops.py" "$tree/src"; }
# plant_ops OP FILE...: a table of two ops, and files outside ir/ that name OP.
plant_ops() {
  plant
  printf 'HR_OP(kLinear, "linear", IN(kX), 1, false, )\nHR_OP(kReshape, "reshape", IN(kX), 1, false, )\n' >"$tree/src/ir/ops.def"
  for file in "${@:2}"; do echo "if (node.op == Op::$1) return;" >"$tree/src/$file"; done
}
five=(passes/a.cpp passes/b.cpp passes/c.hpp base/d.cpp unknown/e.cpp)
plant_ops kLinear "${five[@]:1}" kernels/linear.cpp ir/linear.cpp passes/a_test.cpp
expect 0 '2 ops' check_ops
plant_ops kLinear "${five[@]}"
expect 1 'kLinear: 5 files outside ir, kernels, testing name it, 4 is the most: base/d.cpp' check_ops
plant_ops kReshape "${five[@]}"
expect 0 '2 ops' check_ops
plant_ops kLinear
expect 1 'names an op' check_ops

check_json() { "$here/check_json.sh" "$tree/src"; }
plant passes/pass.cpp '  const json value = parse_json(text, context);  // not json::parse'
expect 0 '' check_json
plant passes/pass.cpp '  return json::parse(text.begin(), text.end(), check);'
expect 1 'passes/pass.cpp:4:  return json::parse' check_json
plant passes/pass.cpp '  const auto check = [](int depth, json::parse_event_t event, json& parsed) { return true; };'
expect 1 'read JSON with parse_json()' check_json
plant base/text/json_events.cpp '  json::sax_parse(text, &handler);'
expect 0 '' check_json
plant base/text/json_events.cpp '  json::parse(text, check);'
expect 1 'json_events.cpp:1:  json::parse' check_json
plant && find "$tree/src" -type f -delete
expect 1 'no source file' check_json

check_waits() { python3 "$here/check_waits.py" "$tree/src"; }
# plant_kernel TEXT [FILE]: beside a sound one.
plant_kernel() {
  plant
  printf '__global__ void __launch_bounds__(divide(8, 2))\n    sound(int* y) {\n  __shared__ int all[4];  // shared\n  wait_for_previous();\n}\n' \
    >"$tree/src/kernels/sound.cu"
  if [[ $# -gt 0 ]]; then printf '%s\n' "$1" >"$tree/src/kernels/${2:-planted.cu}"; fi
}
plant_kernel
expect 0 '1 kernels wait' check_waits
plant_kernel 'template <class T> __global__ void rash(T* y) { *y = 1; wait_for_previous(); }'
expect 1 'kernels/planted.cu:1: rash does not begin with wait_for_previous()' check_waits
plant_kernel '__global__ void rash(int* y) { if (y == nullptr) return; cuda::wait_for_previous(); }' planted.cuh
expect 1 'kernels/planted.cuh:1: rash does not begin with wait_for_previous()' check_waits
plant_kernel '__global__ void rash(int* y) { // wait_for_previous();
}'
expect 1 'rash does not begin' check_waits
plant_kernel '__global__ void narrow_kernel(int* y) { *y = 1; }'
expect 1 'narrow_kernel never waits' check_waits
plant_kernel '__global__ __launch_bounds__(8) void rash(int* y) { wait_for_previous(); }'
expect 1 'a kernel that this check cannot read' check_waits
plant_kernel '__global__ void sound_too(const int* __restrict__ x, int* y) { wait_for_previous(); *y = *x; }'
expect 1 'kernels/planted.cu:1: __restrict__: the compiler may read this before the wait' check_waits
plant_kernel 'void launch() { sound<<<1, 1, 0, stream>>>(y); }'
expect 1 'kernels/planted.cu:1: <<<: kernels are launched by launch_early()' check_waits
plant_kernel 'check(cudaLaunchKernel(kernel, 1, 1, nullptr, 0, stream));' planted.cpp
expect 1 'kernels/planted.cpp:1: cudaLaunchKernel: kernels are launched' check_waits
plant_kernel 'const Comparison result = compare_with_oracle(kernel, spec);' planted_cuda_test.cpp
expect 1 'kernels/planted_cuda_test.cpp:1: compare_with_oracle: nothing before the kernel is late' check_waits
plant
expect 1 'no kernel below' check_waits

check_lists() { python3 "$here/check_lists.py" "$tree/src"; }
# plant_lists TEXT [FILE]: appends a line to sound lists.
plant_lists() {
  plant
  mkdir -p "$tree/src/kernels/norm"
  echo '#include "kernels/norm/kernels.def"' >"$tree/src/kernels/all_kernels.def"
  printf 'HR_CPU_KERNEL(fast_softmax)\nHR_CUDA_KERNELS(cuda_norms)  // of rows\n' >"$tree/src/kernels/norm/kernels.def"
  echo 'const Kernel& fast_softmax() {' >"$tree/src/kernels/norm/softmax_cpu.cpp"
  echo 'std::span<const CudaKernel> cuda_norms() {' >"$tree/src/kernels/norm/norm_cuda.cpp"
  if [[ $# -gt 0 ]]; then echo "$1" >>"$tree/src/kernels/${2:-norm/softmax_cpu.cpp}"; fi
}
plant_lists
expect 0 '2 kernels are listed' check_lists
plant_lists 'const Kernel& plain_softmax() {'
expect 1 'kernels/norm/softmax_cpu.cpp: no kernels.def has HR_CPU_KERNEL(plain_softmax)' check_lists
plant_lists 'std::span<const cuda::CudaKernel> more_norms() {' norm/norm.cu
expect 1 'kernels/norm/norm.cu: no kernels.def has HR_CUDA_KERNEL(more_norms)' check_lists
plant_lists 'const Kernel& fast_softmax() {' norm/cuda_softmax.cpp
expect 1 'no kernels.def has HR_CUDA_KERNEL(fast_softmax)' check_lists
plant_lists 'HR_CPU_KERNEL(fast_softmax)' norm/kernels.def
expect 1 'fast_softmax is listed twice' check_lists
plant_lists && : >"$tree/src/kernels/all_kernels.def"
expect 1 'kernels/norm/kernels.def: is not in kernels/all_kernels.def' check_lists
plant
expect 1 'no kernel below' check_lists

check_kernels() { python3 "$here/check_kernels.py" "$tree/src" "$tree/launched.a"; }
# archive DECLARATION...: of what a compiler makes of sound.cu.
archive() {
  printf '%s\n' "$@" | c++ -x c++ -c -o "$tree/sound.cu.o" -
  rm -f "$tree/launched.a" && ar rc "$tree/launched.a" "$tree/sound.cu.o"
}
plant_kernel
archive 'void sound(int*) {}' 'int __device_stub__Z5soundPi;'
expect 0 '1 kernels are on a GPU too' check_kernels
archive 'void sound(int*) {}' 'void sound(int) {}' 'int __device_stub__Z5soundPi;'
expect 1 '_Z5soundi: on no GPU' check_kernels
plant
expect 1 'no kernel below' check_kernels

plant
seq 800 >"$tree/src/ir/long.cpp"
expect 0 '' check_length
seq 801 >"$tree/src/ir/long.cpp"
expect 1 'src/ir/long.cpp has 801 lines' check_length
plant
for i in {1..44}; do touch "$tree/src/ir/file_$i.cpp"; done  # and graph.hpp
expect 0 '' check_length
touch "$tree/src/ir/one_more.cpp"
expect 1 'src/ir has 46 files' check_length
find "$tree/src" -type f -delete
expect 1 'no source file' check_length

plant passes/pass.cpp '// The 32-way conflict is next to none; always.'
expect 0 '0 faults' check_words
plant passes/pass.cpp '/// A way to do it.'
expect 1 "src/passes/pass.cpp:4: says 'way'; write algorithm" check_words
plant passes/pass.cpp '  fail("{} stands there", name);'
expect 1 "pass.cpp:4: says 'stands'" check_words
plant passes/pass.cpp '  const int way = R"(kin)".size();'
expect 0 '0 faults' check_words
plant passes/pass.cpp "// $(printf 'x%.0s' {1..118})"
expect 1 'pass.cpp:4: is longer than 120 columns' check_words
plant
mkdir -p "$tree/docs"
printf 'The `way` and\n\n    a kin of code\n\n| a table | %s |\n' "$(printf 'x%.0s' {1..120})" >"$tree/docs/a.md"
expect 0 '0 faults' check_words
echo 'It stands beside it.' >>"$tree/docs/a.md"
expect 1 "docs/a.md:6: says 'beside'; write next to" check_words
rm -r "$tree/docs"
mkdir "$tree/bench"
long="$(printf 'x%.0s' {1..120})"
printf '#!/bin/sh\n#   %s\necho %s  # a\n' "$long" "$long" >"$tree/bench/a.sh"
printf '"""a.\n\n    %s\n"""\n' "$long" >"$tree/bench/a.py"
expect 0 '0 faults' check_words
echo "# $long" >>"$tree/bench/a.sh"
expect 1 'bench/a.sh:4: is longer than 120 columns' check_words
printf 'def f():\n    """%s"""\n' "$long" >"$tree/bench/a.py"
expect 1 'bench/a.py:2: is longer than 120 columns' check_words
rm -r "$tree/bench"
find "$tree/src" -type f -delete
expect 1 '0 files' check_words

mkdir -p "$tree/scripts" "$tree/tests/goldens"
touch "$tree/tests/goldens/make_flux.py" "$tree/tests/goldens/make_other.py" "$tree/tests/goldens/compare.py"
echo 'python3 tests/goldens/make_flux.py  # not made here: make_other.py' >"$tree/scripts/make_goldens.sh"
expect 0 '' check_goldens
echo 'python3 tests/goldens/make_flux.py' >"$tree/scripts/make_goldens.sh"
expect 1 'tests/goldens/make_other.py is neither run by' check_goldens

check_weight() { python3 "$here/check_weight.py" "$tree" 0.1; }
expect 0 'skipped' check_weight
git -C "$tree" init --quiet
expect 1 '0 files' check_weight
head -c 90000 /dev/urandom >"$tree/random.bin"
cp "$tree/random.bin" "$tree/same.bin"
seq 100000 >"$tree/untracked.txt"
git -C "$tree" add random.bin same.bin
expect 0 '1 files, 0.09 MB' check_weight
git -C "$tree" add untracked.txt
expect 1 'MB  untracked.txt' check_weight

[[ $failures -eq 0 ]]
