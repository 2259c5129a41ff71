// quantize_values and scaled_attention on a CPU, as their definitions say, for tests and for programs made for a GPU:
// plain loops in f32, operands dense, any sizes and dtypes. Probabilities are not rounded.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kOrderedKeys = 16;  // keys that quantize_values orders

/// Where quantize_values puts a key.
std::int64_t place_of_key(std::int64_t key) {
  const std::int64_t r = key % kOrderedKeys / 8, c = key % 8 / 2, i = key % 2;
  return key / kOrderedKeys * kOrderedKeys + 4 * c + 2 * r + i;
}

/// PlainElements of any dtype.
struct PlainElements {
  const std::byte* data;
  DType dtype;

  [[nodiscard]] float operator[](std::int64_t index) const {
    return static_cast<float>(load_as_double(data + static_cast<std::size_t>(index) * size_of(dtype), dtype));
  }
};

KernelPlan plan_plain_quantize_values(const KernelBinding& binding) {
  const TensorType& v = binding.inputs[0].type;
  const std::int64_t tokens = v.shape[2], channels = v.shape[3], padded = binding.outputs[0].type.shape[3];
  const std::int64_t rows = v.shape[0] * v.shape[1] * channels;
  return {[=, dtype = v.dtype, threads = binding.threads](const LaunchArguments& arguments) {
    const PlainElements from{arguments.input<std::byte>(0), dtype};
    parallel_for(threads, rows, grain_of(tokens), [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
      constexpr float kLargest = 448;
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t first = row / channels * tokens * channels + row % channels;
        float peak = 0;
        for (std::int64_t token = 0; token < tokens; ++token) {
          const float magnitude = std::fabs(from[first + token * channels]);
          if (magnitude > peak || std::isnan(magnitude)) peak = magnitude;
          if (std::isnan(peak)) break;
        }
        const bool is_zeros = peak < 0x1p-100F, is_none = is_zeros || !std::isfinite(peak);
        arguments.output<float>(1)[row] = is_zeros ? 1 : peak / kLargest;
        std::byte* const to = arguments.output<std::byte>(0) + row * padded;
        std::fill_n(to, padded, std::byte{0});
        for (std::int64_t token = 0; token < tokens; ++token)
          store_from_double(to + place_of_key(token), DType::kF8E4M3,
                            is_none ? 0 : static_cast<double>(from[first + token * channels] * (kLargest / peak)));
      }
    });
  }};
}

KernelPlan plan_plain_scaled_attention(const KernelBinding& binding) {
  const TensorType &q = binding.input(Role::kQ).type, &k = binding.input(Role::kK).type;
  const TensorType &v = binding.input(Role::kV).type, &made = binding.outputs[0].type;
  const std::int64_t heads = q.shape[1], queries = q.shape[2], dim = q.shape[3];
  const std::int64_t groups = k.shape[1], keys = k.shape[2], value_dim = v.shape[2], padded = v.shape[3];
  const auto scale = static_cast<float>(binding.spec.attributes[attr::kScale]);
  const auto launch = [=, scores_in = q.dtype, made_in = made.dtype, rows = q.shape[0] * heads * queries,
                       threads = binding.threads](const LaunchArguments& arguments) {
    const PlainElements query{arguments.input<std::byte>(0), scores_in}, key{arguments.input<std::byte>(2), scores_in};
    const PlainElements value{arguments.input<std::byte>(4), DType::kF8E4M3};
    const auto *const q_scales = arguments.input<float>(1), *const k_scales = arguments.input<float>(3),
                      *const v_scales = arguments.input<float>(5);
    parallel_for(threads, rows, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      float* const scores = arguments.scratch_memory<float>() + thread * keys;
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t head = row / queries, group = head / heads * groups + head % heads / (heads / groups);
        float most = -std::numeric_limits<float>::infinity(), total = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          float sum = 0;
          for (std::int64_t i = 0; i < dim; ++i) sum += query[row * dim + i] * key[(group * keys + j) * dim + i];
          scores[j] = sum * (q_scales[row] * scale) * k_scales[group * keys + j];
          most = std::max(most, scores[j]);
        }
        for (std::int64_t j = 0; j < keys; ++j) total += scores[j] = std::exp(scores[j] - most);
        for (std::int64_t channel = 0; channel < value_dim; ++channel) {
          const std::int64_t first = (group * value_dim + channel) * padded;
          float sum = 0;
          for (std::int64_t j = 0; j < keys; ++j) sum += scores[j] * value[first + place_of_key(j)];
          store_from_double(
              arguments.output<std::byte>(0) + static_cast<std::size_t>(row * value_dim + channel) * size_of(made_in),
              made_in, static_cast<double>(sum / total * v_scales[group * value_dim + channel]));
        }
      }
    });
  };
  return {launch, static_cast<std::size_t>(binding.threads * keys) * sizeof(float)};
}

}  // namespace

const Kernel& plain_quantize_values() {
  static const CpuKernel kernel({.name = "plain.quantize_values",
                                 .op = Op::kQuantizeValues,
                                 .supports = supports_row_major,
                                 .strides = StrideRule::kDense,
                                 .plan = plan_plain_quantize_values});
  return kernel;
}

const Kernel& plain_scaled_attention() {
  static const CpuKernel kernel({.name = "plain.scaled_attention",
                                 .op = Op::kScaledAttention,
                                 .supports = supports_row_major,
                                 .strides = StrideRule::kDense,
                                 .plan = plan_plain_scaled_attention});
  return kernel;
}

}  // namespace headroom
