#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "kernels/core/cuda/fill_words.hpp"
#include "kernels/vendor/cudnn/convolution_trial.hpp"

namespace headroom::cudnn {
namespace {

using convolutions::Problem;

constexpr std::int64_t kMostRead = 16384;
constexpr std::uint32_t kEven = 0xFFFF;  // of a word with two elements: the first

/// Values in a word of memory, as one element of 32 bits or two of 16.
struct Words {
  std::uint32_t one, infinity, nan, sign;
};
Words words_of(DType dtype) {
  if (dtype == DType::kF32) return {0x3F800000U, 0x7F800000U, 0x7FC00000U, 0x80000000U};
  if (dtype == DType::kBF16) return {0x3F803F80U, 0x7F807F80U, 0x7FC07FC0U, 0x80008000U};
  HR_CHECK(dtype == DType::kF16);
  return {0x3C003C00U, 0x7C007C00U, 0x7E007E00U, 0x80008000U};
}

std::size_t bytes_of(DType dtype, const Shape& shape) {
  return static_cast<std::size_t>(shape.numel()) * size_of(dtype);
}

/// The elements of x that results are sums of, by their places in memory.
class Taps {
 public:
  explicit Taps(const Problem& problem)
      : problem_(problem), strides_(dense_operand({problem.dtype, problem.x, problem.layout}).strides) {}

  /// Whether the sum of result `index` has a term with an element of x; with `at_odd`, with one at an odd index.
  [[nodiscard]] bool read(std::int64_t index, bool at_odd) const {
    const std::array<std::int64_t, 4> at = place_of(index);
    const std::int64_t channels = problem_.x[1] / problem_.how.groups;
    const std::int64_t first = at[1] / (problem_.y[1] / problem_.how.groups) * channels;
    for (std::int64_t u = 0; u < problem_.weight[2]; ++u)
      for (std::int64_t v = 0; v < problem_.weight[3]; ++v) {
        const std::int64_t row = source_of(0, at[2], u), column = source_of(1, at[3], v);
        if (row < 0 || column < 0) continue;
        const std::int64_t pixel = at[0] * strides_[0] + first * strides_[1] + row * strides_[2] + column * strides_[3];
        if (!at_odd || pixel % 2 != 0 || (channels > 1 && strides_[1] % 2 != 0)) return true;
      }
    return false;
  }

 private:
  /// Batch, channel, row and column of a result.
  [[nodiscard]] std::array<std::int64_t, 4> place_of(std::int64_t index) const {
    constexpr std::array<int, 4> kRowMajor = {3, 2, 1, 0}, kChannelsLast = {1, 3, 2, 0};  // innermost axis first
    std::array<std::int64_t, 4> place{};
    for (const int axis : problem_.layout == Layout::kChannelsLast ? kChannelsLast : kRowMajor) {
      place[static_cast<std::size_t>(axis)] = index % problem_.y[axis];
      index /= problem_.y[axis];
    }
    return place;
  }

  /// The position in x that a tap reads for a result along one axis of the image; negative if it reads padding.
  [[nodiscard]] std::int64_t source_of(std::size_t axis, std::int64_t at, std::int64_t tap) const {
    const std::int64_t extent = problem_.x[static_cast<int>(axis) + 2], stride = problem_.how.stride[axis];
    const std::int64_t before = problem_.how.padding[axis], offset = tap * problem_.how.dilation[axis];
    if (!problem_.is_transposed) return at * stride + offset - before < extent ? at * stride + offset - before : -1;
    const std::int64_t reached = at + before - offset;
    return reached >= 0 && reached % stride == 0 && reached / stride < extent ? reached / stride : -1;
  }

  const Problem& problem_;
  Shape strides_;
};

}  // namespace

/// Words that x and the weight consist of.
struct ConvolutionTrial::Contents {
  std::uint32_t x, weight;
  bool is_odd_only = false;  ///< elements of x at even indices are finite
};

ConvolutionTrial::ConvolutionTrial(const Problem& problem, Backend& backend)
    : problem_(problem), backend_(backend), stream_(backend.make_stream()) {
  const std::size_t x = part_bytes(bytes_of(problem.dtype, problem.x));
  const std::size_t weight = part_bytes(bytes_of(problem.dtype, problem.weight));
  const std::size_t bias = problem.bias ? part_bytes(bytes_of(*problem.bias, {problem.y[1]})) : 0;
  const std::size_t y = part_bytes(bytes_of(problem.dtype, problem.y)), residual = problem.has_residual ? y : 0;
  y_ = x + weight + bias + residual;
  memory_ = backend.allocate(y_ + y, MemoryCategory::kWorkspace);
  operands_ = {.x = memory_.at().address(),
               .weight = memory_.at(x).address(),
               .bias = problem.bias ? memory_.at(x + weight).address() : nullptr,
               .residual = problem.has_residual ? memory_.at(x + weight + bias).address() : nullptr,
               .y = memory_.at(y_).address()};
  if (bias + residual > 0)
    cuda::launch_fill_words(stream_->native_handle(), 0, 0, memory_.at(x + weight).address(), (bias + residual) / 4);
}

void* ConvolutionTrial::workspace(std::size_t bytes) {
  if (const std::size_t wanted = std::max(bytes, kPartAlignment); workspace_.bytes() < wanted) {
    workspace_ = {};  // before the larger one is there
    workspace_ = backend_.allocate(wanted, MemoryCategory::kWorkspace);
  }
  return workspace_.at().address();
}

bool ConvolutionTrial::keeps_special_values(const Launch& launch, std::size_t workspace_bytes) {
  void* const memory = workspace(workspace_bytes);
  const Words words = words_of(problem_.dtype);
  const std::uint32_t negative = words.infinity | words.sign;
  std::vector<Contents> contents = {
      {words.nan, words.one}, {words.infinity, words.one}, {negative, words.one | words.sign}};
  if (problem_.activation == Activation::kNone) {  // others make finite results of -infinity
    contents.push_back({negative, words.one});
    if (size_of(problem_.dtype) == 2) {
      contents.push_back({(negative & ~kEven) | (words.infinity & kEven), words.one});
      contents.push_back({(negative & ~kEven) | (words.one & kEven), words.one, true});
    }
  }
  return std::ranges::all_of(contents, [&](const Contents& each) { return keeps(launch, memory, each); });
}

void ConvolutionTrial::fill(std::uint32_t word, const void* operand, std::size_t bytes) {
  cuda::launch_fill_words(stream_->native_handle(), 0, word, const_cast<void*>(operand), part_bytes(bytes) / 4);
}

bool ConvolutionTrial::keeps(const Launch& launch, void* workspace, const Contents& contents) {
  const Words words = words_of(problem_.dtype);
  fill(contents.x, operands_.x, bytes_of(problem_.dtype, problem_.x));
  fill(contents.weight, operands_.weight, bytes_of(problem_.dtype, problem_.weight));
  fill(words.one, operands_.y, bytes_of(problem_.dtype, problem_.y));
  launch(stream_->native_handle(), operands_, workspace);
  const std::int64_t results = problem_.y.numel(), count = std::min(results, kMostRead);
  const std::int64_t first = (results - count) / 2;
  const std::size_t size = size_of(problem_.dtype);
  std::vector<std::byte> read(static_cast<std::size_t>(count) * size);
  backend_.copy_to_host(*stream_, read.data(), memory_.at(y_ + static_cast<std::size_t>(first) * size), read.size());
  stream_->synchronize();
  const Taps taps(problem_);
  const std::uint32_t exponent = size == 4 ? words.infinity : words.infinity & kEven;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t value = 0;
    std::memcpy(&value, read.data() + static_cast<std::size_t>(i) * size, size);
    if ((value & exponent) != exponent && taps.read(first + i, contents.is_odd_only)) return false;
  }
  return true;
}

}  // namespace headroom::cudnn
