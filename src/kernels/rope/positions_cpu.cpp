// rope_table:          cos, sin of ids[s, a] * theta^(-2i / axes[a]), i < axes[a]/2, the axes side by side -> [s, d/2]
// each timestep_embedding:  [cos, sin] of scale * t[b] * max_period^(-i / (dim/2)) -> [b, dim]  (DDPM, Ho et al. 2020,
// appendix B)
//
// Both run once a request or a step, on little data, and the angles reach thousands of radians, where f32 has lost the
// digits that matter: so f64 and the C library, frequencies computed when prepared. f32 out, any number dtype in. Bytes
// and FLOPs do not matter; the sines do (about 20 ns each).

#include <cmath>
#include <vector>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom {
namespace {

/// The cost of a sine and cosine in the elements that kElementsPerThread counts.
constexpr std::int64_t kElementsPerSine = 64;

/// Appends factor * base^(-2i / extent) for i < extent / 2.
void append_frequencies(std::vector<double>& frequencies, double base, double factor, std::int64_t extent) {
  for (std::int64_t i = 0; i < extent / 2; ++i) {
    frequencies.push_back(factor * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(extent)));
  }
}

KernelPlan plan_rope_table(const KernelBinding& binding) {
  const Operand& ids = binding.inputs[0];  // [s, axes]
  const std::vector<std::int64_t>& axes = binding.spec.attributes[attr::kAxes];
  std::vector<double> frequencies;      // [d/2]
  std::vector<std::int64_t> id_offset;  // [d/2]: the element of a row of ids that each frequency multiplies
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    append_frequencies(frequencies, binding.spec.attributes[attr::kTheta], 1.0, axes[axis]);
    id_offset.resize(frequencies.size(), static_cast<std::int64_t>(axis) * ids.strides[1]);
  }
  const DType dtype = ids.type.dtype;
  const std::int64_t positions = ids.type.shape[0];
  const std::int64_t ids_row = ids.strides[0];
  const std::int64_t cos_row = binding.outputs[0].strides[0];
  const std::int64_t sin_row = binding.outputs[1].strides[0];
  const int threads = binding.threads;
  return {[=](const LaunchArguments& arguments) {
    const auto columns = static_cast<std::int64_t>(frequencies.size());
    parallel_for(threads, positions, grain_of(columns * kElementsPerSine),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   for (std::int64_t s = begin; s < end; ++s) {
                     float* cos = arguments.output<float>(0) + s * cos_row;
                     float* sin = arguments.output<float>(1) + s * sin_row;
                     for (std::size_t i = 0; i < frequencies.size(); ++i) {
                       const auto at = static_cast<std::size_t>(s * ids_row + id_offset[i]) * size_of(dtype);
                       const double angle = load_as_double(arguments.input<std::byte>(0) + at, dtype) * frequencies[i];
                       cos[i] = static_cast<float>(std::cos(angle));
                       sin[i] = static_cast<float>(std::sin(angle));
                     }
                   }
                 });
  }};
}

KernelPlan plan_timestep_embedding(const KernelBinding& binding) {
  const auto& attributes = binding.spec.attributes;
  std::vector<double> frequencies;  // [dim/2]
  append_frequencies(frequencies, attributes[attr::kMaxPeriod], attributes[attr::kScale], attributes[attr::kDim]);
  const DType dtype = binding.inputs[0].type.dtype;
  const std::int64_t batch = binding.inputs[0].type.shape[0];
  const std::int64_t t_stride = binding.inputs[0].strides[0];
  const std::int64_t row = binding.outputs[0].strides[0];
  return {[=](const LaunchArguments& arguments) {
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto at = static_cast<std::size_t>(b * t_stride) * size_of(dtype);
      const double t = load_as_double(arguments.input<std::byte>(0) + at, dtype);
      float* out = arguments.output<float>(0) + b * row;
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        out[i] = static_cast<float>(std::cos(t * frequencies[i]));
        out[frequencies.size() + i] = static_cast<float>(std::sin(t * frequencies[i]));
      }
    }
  }};
}

KernelTraits in_double(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  return {.name = name, .op = op, .supports = supports_all_types, .compute = DType::kF64, .plan = plan};
}

}  // namespace

const Kernel& highway_rope_table() {
  static const CpuKernel kernel(in_double("highway.rope_table", Op::kRopeTable, plan_rope_table));
  return kernel;
}

const Kernel& highway_timestep_embedding() {
  static const CpuKernel kernel(
      in_double("highway.timestep_embedding", Op::kTimestepEmbedding, plan_timestep_embedding));
  return kernel;
}

}  // namespace headroom
