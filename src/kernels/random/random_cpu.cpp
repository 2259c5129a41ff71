// random: y[b, ...], element i of image b a function of key[b], offset and i alone (base/tensors/random.hpp), in f32
//
// Bytes      y written once. FLOPs: 60 an element, in double precision.

#include <algorithm>

#include "base/tensors/random.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom {
namespace {

/// Elements that a thread draws at a time, and the cost of one in the elements that kElementsPerThread counts.
constexpr std::int64_t kPieceNumbers = 1024, kElementsPerNumber = 16;

std::uint64_t integer_at(const void* data, DType dtype, std::int64_t index) {
  if (dtype == DType::kI64) return static_cast<std::uint64_t>(static_cast<const std::int64_t*>(data)[index]);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<const std::int32_t*>(data)[index]));
}

KernelPlan plan_random(const KernelBinding& binding) {
  const bool is_normal = binding.spec.attributes[attr::kDistribution] == Distribution::kNormal;
  const DType keys = binding.inputs[0].type.dtype, offset_dtype = binding.inputs[1].type.dtype;
  const Shape& shape = binding.outputs[0].type.shape;
  const std::int64_t images = shape[0], elements = shape.numel() / images;
  return {[=, threads = binding.threads](const LaunchArguments& arguments) {
    const std::int64_t pieces = (elements + kPieceNumbers - 1) / kPieceNumbers;
    const std::uint64_t offset = integer_at(arguments.input(1), offset_dtype, 0);
    parallel_for(threads, images * pieces, grain_of(kPieceNumbers * kElementsPerNumber),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t image = i / pieces, first = i % pieces * kPieceNumbers;
                     const std::uint64_t key = integer_at(arguments.input(0), keys, image);
                     float* const y = arguments.output<float>(0) + image * elements + first;
                     const std::span numbers(y, static_cast<std::size_t>(std::min(kPieceNumbers, elements - first)));
                     const auto from = static_cast<std::uint64_t>(first);
                     is_normal ? fill_normal(numbers, key, offset, from) : fill_uniform(numbers, key, offset, from);
                   }
                 });
  }};
}

}  // namespace

const Kernel& highway_random() {
  static const CpuKernel kernel({.name = "highway.random",
                                 .op = Op::kRandom,
                                 .supports = supports_all_types,
                                 .strides = StrideRule::kDense,
                                 .plan = plan_random});
  return kernel;
}

}  // namespace headroom
