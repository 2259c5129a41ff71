// group_norm: y = act((x - mean) / sqrt(variance + eps) * weight + bias)     Wu and He, "Group Normalization" (2018)
//
// Shapes   x[b, c, ...], mean and variance over c/groups channels and all axes after them; row-major or channels last.
// Dtypes   x, y f32 or bf16; weight and bias the same or f32; f32 arithmetic, one rounding.
// Bytes    x read twice and y written once: an image is larger than the cache.
// FLOPs    7 an element and its activation: bound by memory.
//
// Threads share pieces of an image; there are enough of these even if batch times groups is small. The mean and the
// sum of squares about it are computed for each piece and group (two passes, the second from the cache). Those of a
// group are then joined in double (Chan, Golub and LeVeque 1979). A second walk writes y = (x - mean) * factor +
// term, with one factor and term for a channel. The means are split in two floats, of which the lower is part of
// the term, so that y is as exact as with means in double.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/tensors/divide_up.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/group_norm_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"
#include "kernels/core/support.hpp"
#include "kernels/elementwise/activation_inl.hpp"

#ifndef HEADROOM_KERNELS_GROUP_NORM
#define HEADROOM_KERNELS_GROUP_NORM
namespace headroom {
namespace {

/// The mean of `count` elements and the sum of squares about it.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void join(const Moments& other) {
    if (other.count == 0) return;
    const double all = count + other.count, apart = other.mean - mean;
    mean += apart * (other.count / all);
    squares += other.squares + apart * apart * count * (other.count / all);
    count = all;
  }
};

/// The arguments that a group_norm kernel is bound to.
struct GroupNorm {
  DType dtype, side;
  Activation activation;
  double eps;
  std::int64_t images, channels, groups, width;  ///< width: channels of a group; those after the groups become 0
  std::int64_t pixels;                           ///< of a channel
  bool channels_last;

  static constexpr std::int64_t kPieceElements = 16384;
  static constexpr std::int64_t kMostSummed = 128;  ///< pixels, one by one in f32

  /// An image is cut into pieces of this many pixels: of all channels if these come last, otherwise of one group, as
  /// if it were one channel.
  [[nodiscard]] std::int64_t piece_pixels() const {
    return channels_last ? std::clamp<std::int64_t>(kPieceElements / channels, 1, kMostSummed) : kPieceElements;
  }
  [[nodiscard]] std::int64_t pieces() const {  ///< of an image, or of a group
    return divide_up(channels_last ? pixels : width * pixels, piece_pixels());
  }
  [[nodiscard]] std::int64_t moment_tasks() const { return images * pieces() * (channels_last ? 1 : groups); }
  [[nodiscard]] std::int64_t partial_moments() const { return images * groups * pieces(); }

  /// Pieces of the result: rows of a channel, or pieces of an image.
  [[nodiscard]] std::int64_t row_pieces() const { return divide_up(pixels, kPieceElements); }
  [[nodiscard]] std::int64_t result_tasks() const {
    return images * (channels_last ? pieces() : channels * row_pieces());
  }
};

/// Memory that a launch works in.
struct GroupNormScratch {
  Moments* partial;             ///< [images, groups, pieces]
  float *mean, *factor, *term;  ///< [images, channels]
  float* own;                   ///< [3, channels], a thread's
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {

/// A per-channel vector of floats, for elements of any type.
struct PerChannel {
  const float* from;
  HWY_INLINE PerChannel operator+(std::int64_t i) const { return {from + i}; }
};
HWY_INLINE void prefetch_ahead(PerChannel) {}
HWY_INLINE Vector load_all(PerChannel operand) { return load_all(operand.from); }
HWY_INLINE Vector load(PerChannel operand, std::int64_t count) { return load(operand.from, count); }

namespace {

template <class T>
Moments moments_of_run(const T* x, std::int64_t n) {
  const auto count = static_cast<double>(n);
  const double sum = sum_row(
      n, [](Vector v) HWY_ATTR { return v; }, x);
  const auto near = static_cast<float>(sum / count);
  const Vector mean = hn::Set(Float(), near);
  Vector sums = hn::Zero(Float());  // of differences from the mean: small, so that a float holds them
  const double squares = sum_groups(n, [&](std::int64_t i, std::int64_t valid) HWY_ATTR {
    const Pairs v = load_group<T>(x + i, valid);
    const Pairs beyond = keep_first_of_group<T>({hn::Sub(v.even, mean), hn::Sub(v.odd, mean)}, valid);
    sums = hn::Add(sums, hn::Add(beyond.even, beyond.odd));
    return Pairs{hn::Mul(beyond.even, beyond.even), hn::Mul(beyond.odd, beyond.odd)};
  });
  const double beyond = static_cast<double>(hn::GetLane(hn::SumOfLanes(Float(), sums))) / count;
  return {count, static_cast<double>(near) + beyond, std::max(0.0, squares - beyond * beyond * count)};
}

/// The elements that sums of pixels read, and the destination of the sums.
template <class T>
struct PixelSums {
  const T* x;  ///< [pixels, channels]
  std::int64_t pixels, channels;
  const float* mean;  ///< null for sums of x; otherwise they are of the differences from it and of their squares
  float* sums;
  float* squares;

  /// Sums kVectors vectors of channels from c on at once, so that additions do not wait for one another.
  template <int kVectors>
  HWY_INLINE void take(std::int64_t c, std::int64_t valid) const {
    Vector sum[kVectors], square[kVectors], near[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = square[v] = hn::Zero(Float());
      near[v] = mean == nullptr ? sum[v] : load(mean + c + v * lanes(), valid);
    }
    if (mean == nullptr) {
      for (std::int64_t p = 0; p < pixels; ++p)
        for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], load(x + p * channels + c + v * lanes(), valid));
    } else {
      for (std::int64_t p = 0; p < pixels; ++p)
        for (int v = 0; v < kVectors; ++v) {
          const Vector beyond = hn::Sub(load(x + p * channels + c + v * lanes(), valid), near[v]);
          sum[v] = hn::Add(sum[v], beyond);
          square[v] = hn::MulAdd(beyond, beyond, square[v]);
        }
    }
    for (int v = 0; v < kVectors; ++v) {
      store(sum[v], sums + c + v * lanes(), valid);
      if (mean != nullptr) store(square[v], squares + c + v * lanes(), valid);
    }
  }
  HWY_INLINE void take_all() const {
    std::int64_t c = 0;
    for (; c + 4 * lanes() <= channels; c += 4 * lanes()) take<4>(c, lanes());
    for (; c < channels; c += lanes()) take<1>(c, HWY_MIN(lanes(), channels - c));
  }
};

/// For `pixels` with all their channels: moments of each group, `stride` apart.
template <class T>
void moments_of_pixels(const GroupNorm& bound, const T* x, std::int64_t pixels, float* own, Moments* to,
                       std::int64_t stride) {
  float* const mean = own;
  float* const sums = own + bound.channels;
  float* const squares = sums + bound.channels;
  const auto count = static_cast<double>(bound.width * pixels);
  const auto total = [&](const float* from, std::int64_t group) {
    double sum = 0;
    for (std::int64_t c = 0; c < bound.width; ++c) sum += static_cast<double>(from[group * bound.width + c]);
    return sum;
  };
  PixelSums<T>{x, pixels, bound.channels, nullptr, sums, nullptr}.take_all();
  std::fill_n(mean, bound.channels, 0.0F);
  for (std::int64_t g = 0; g < bound.groups; ++g)
    std::fill_n(mean + g * bound.width, bound.width, static_cast<float>(total(sums, g) / count));
  PixelSums<T>{x, pixels, bound.channels, mean, sums, squares}.take_all();
  for (std::int64_t g = 0; g < bound.groups; ++g) {
    const double beyond = total(sums, g) / count;  // of the mean as a float
    to[g * stride] = {count, static_cast<double>(mean[g * bound.width]) + beyond,
                      std::max(0.0, total(squares, g) - beyond * beyond * count)};
  }
}

template <class T>
void take_moments_of(const GroupNorm& bound, const T* x, std::int64_t begin, std::int64_t end,
                     const GroupNormScratch& at) {
  const std::int64_t pieces = bound.pieces(), piece = bound.piece_pixels();
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t whole = task / pieces, first = task % pieces * piece;
    if (bound.channels_last) {  // `whole` is an image
      moments_of_pixels(bound, x + (whole * bound.pixels + first) * bound.channels,
                        HWY_MIN(piece, bound.pixels - first), at.own,
                        at.partial + whole * bound.groups * pieces + task % pieces, pieces);
    } else {  // a group of an image
      const std::int64_t image = whole / bound.groups, group = whole % bound.groups;
      const std::int64_t run = bound.width * bound.pixels;
      const T* const from = x + (image * bound.channels + group * bound.width) * bound.pixels + first;
      at.partial[task] = moments_of_run(from, HWY_MIN(piece, run - first));
    }
  }
}

void take_moments(const GroupNorm& bound, const void* x, std::int64_t begin, std::int64_t end,
                  const GroupNormScratch& at) {
  HR_TAKE_FLOAT_LOOPS(true, take_moments(bound, x, begin, end, at));
  if constexpr (kHasFloatLoops) {
    if (bound.dtype == DType::kF32) return take_moments_of(bound, static_cast<const float*>(x), begin, end, at);
    take_moments_of(bound, static_cast<const Bf16*>(x), begin, end, at);
  }
}

/// y = act((x - mean) * factor + term).
template <Activation kActivation, Precision kPrecision>
struct FinishNorm {
  HWY_INLINE Vector operator()(Vector x, Vector mean, Vector factor, Vector term) const {
    const Vector y = hn::MulAdd(hn::Sub(x, mean), factor, term);
    if constexpr (kActivation == Activation::kNone) return y;
    return formula<op_of(kActivation), kPrecision>(y);
  }
};

template <Activation kActivation, class Y>
void write_results_of(const GroupNorm& bound, const void* from, void* to, std::int64_t begin, std::int64_t end,
                      const GroupNormScratch& at) {
  using T = typename Destination<Y>::Element;
  const auto* const x = static_cast<const T*>(from);
  const Y y = Destination<Y>::at(to);
  const FinishNorm<kActivation, precision_of<T>()> finish;
  const std::int64_t channels = bound.channels, pixels = bound.pixels, counted = bound.groups * bound.width;
  if (bound.channels_last) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t image = task / bound.pieces(), first = task % bound.pieces() * bound.piece_pixels();
      const std::int64_t last = HWY_MIN(pixels, first + bound.piece_pixels()), row = image * channels;
      for (std::int64_t p = first; p < last; ++p) {
        const std::int64_t place = (image * pixels + p) * channels;
        map_row(counted, finish, y + place, x + place, PerChannel{at.mean + row}, PerChannel{at.factor + row},
                PerChannel{at.term + row});
        if (counted < channels)
          std::memset(static_cast<void*>(address_of(y + (place + counted))), 0,
                      static_cast<std::size_t>(channels - counted) * sizeof(T));
      }
    }
  } else {
    const Float d;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t row = task / bound.row_pieces(), channel = row % channels;  // row: image and channel
      const std::int64_t first = task % bound.row_pieces() * GroupNorm::kPieceElements;
      const std::int64_t n = HWY_MIN(GroupNorm::kPieceElements, pixels - first), place = row * pixels + first;
      if (channel >= counted) {
        std::memset(static_cast<void*>(address_of(y + place)), 0, static_cast<std::size_t>(n) * sizeof(T));
        continue;
      }
      map_row(n, finish, y + place, x + place, Repeated{hn::Set(d, at.mean[row])}, Repeated{hn::Set(d, at.factor[row])},
              Repeated{hn::Set(d, at.term[row])});
    }
  }
  finish_writes<Y>();
}

void write_results(const GroupNorm& bound, const void* x, void* y, bool past_cache, std::int64_t begin,
                   std::int64_t end, const GroupNormScratch& at) {
  HR_TAKE_FLOAT_LOOPS(bound.dtype == DType::kF32, write_results(bound, x, y, past_cache, begin, end, at));
  with_destination(bound.dtype, past_cache, [&](auto destination) {
    using Y = decltype(destination);
    switch (bound.activation) {
      case Activation::kNone:
        return write_results_of<Activation::kNone, Y>(bound, x, y, begin, end, at);
      case Activation::kGeluTanh:
        return write_results_of<Activation::kGeluTanh, Y>(bound, x, y, begin, end, at);
      case Activation::kGeluErf:
        return write_results_of<Activation::kGeluErf, Y>(bound, x, y, begin, end, at);
      case Activation::kSilu:
        return write_results_of<Activation::kSilu, Y>(bound, x, y, begin, end, at);
      case Activation::kRelu:
        return write_results_of<Activation::kRelu, Y>(bound, x, y, begin, end, at);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(take_moments);
HWY_EXPORT(write_results);

/// Joins the moments of groups [begin, end) of all images, and computes the factor and the term of each channel.
void join_groups(const GroupNorm& bound, const LaunchArguments& arguments, std::int64_t begin, std::int64_t end,
                 const GroupNormScratch& at) {
  const auto channel_value = [&](std::size_t input, std::int64_t channel, double otherwise) {
    const auto* const from = arguments.optional_input<std::byte>(input);
    if (from == nullptr) return otherwise;
    return load_as_double(from + static_cast<std::size_t>(channel) * size_of(bound.side), bound.side);
  };
  for (std::int64_t whole = begin; whole < end; ++whole) {
    Moments moments;
    for (std::int64_t piece = 0; piece < bound.pieces(); ++piece)
      moments.join(at.partial[whole * bound.pieces() + piece]);
    const double inverse = 1 / std::sqrt(moments.squares / moments.count + bound.eps);
    const auto mean = static_cast<float>(moments.mean);
    const double below = moments.mean - static_cast<double>(mean);
    const std::int64_t image = whole / bound.groups, first = whole % bound.groups * bound.width;
    for (std::int64_t c = first; c < first + bound.width; ++c) {
      const double factor = inverse * channel_value(1, c, 1);
      const std::int64_t place = image * bound.channels + c;
      at.mean[place] = mean;
      at.factor[place] = static_cast<float>(factor);
      at.term[place] = static_cast<float>(channel_value(2, c, 0) - below * factor);
    }
  }
}

GroupNorm bind(const KernelBinding& binding) {
  const TensorType& x = binding.inputs[0].type;
  const Attributes& attributes = binding.spec.attributes;
  const std::int64_t channels = x.shape[1], groups = attributes[attr::kGroups];
  const std::int64_t counted = attributes[attr::kChannels] == 0 ? channels : attributes[attr::kChannels];
  return {.dtype = x.dtype,
          .side = binding.inputs.back().type.dtype,
          .activation = only_activation_of(binding.spec),
          .eps = attributes[attr::kEps],
          .images = x.shape[0],
          .channels = channels,
          .groups = groups,
          .width = counted / groups,
          .pixels = x.shape.numel() / std::max<std::int64_t>(1, x.shape[0] * channels),
          .channels_last = x.layout == Layout::kChannelsLast};
}

KernelPlan plan_group_norm(const KernelBinding& binding) {
  const GroupNorm bound = bind(binding);
  const std::int64_t table = bound.images * bound.channels, threads = binding.threads;
  const std::size_t partial_bytes = static_cast<std::size_t>(bound.partial_moments()) * sizeof(Moments);
  const auto row = static_cast<std::size_t>(bound.channels_last ? bound.channels : bound.pixels);
  const bool may_pass_cache = binding.exceeds_cache && row * size_of(bound.dtype) % kCacheLine == 0;
  const auto launch = [=](const LaunchArguments& arguments) {
    if (bound.images * bound.channels * bound.pixels == 0) return;
    const void* const x = arguments.input(0);
    void* const y = arguments.output(0);
    const bool past_cache = may_pass_cache && x != y && reinterpret_cast<std::uintptr_t>(y) % kCacheLine == 0;
    auto* const floats = reinterpret_cast<float*>(arguments.scratch_memory<std::byte>() + partial_bytes);
    const auto scratch = [&](int thread) {
      return GroupNormScratch{arguments.scratch_memory<Moments>(), floats, floats + table, floats + 2 * table,
                              floats + 3 * table + thread * 3 * bound.channels};
    };
    const std::int64_t grain =
        grain_of(bound.channels_last ? bound.piece_pixels() * bound.channels
                                     : std::min(bound.piece_pixels(), bound.width * bound.pixels));
    const std::int64_t row_grain =
        bound.channels_last ? grain : grain_of(std::min(GroupNorm::kPieceElements, bound.pixels));
    const auto share = [&](std::int64_t tasks, std::int64_t least, const auto& body) {
      parallel_for(static_cast<int>(threads), tasks, least, body);
    };
    share(bound.moment_tasks(), grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      HWY_DYNAMIC_DISPATCH(take_moments)(bound, x, begin, end, scratch(thread));
    });
    share(bound.images * bound.groups, grain_of(bound.pieces() + bound.width),
          [&](std::int64_t begin, std::int64_t end, int thread) {
            join_groups(bound, arguments, begin, end, scratch(thread));
          });
    share(bound.result_tasks(), row_grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      HWY_DYNAMIC_DISPATCH(write_results)(bound, x, y, past_cache, begin, end, scratch(thread));
    });
  };
  return {launch, partial_bytes + static_cast<std::size_t>(3 * (table + threads * bound.channels)) * sizeof(float)};
}

Support supports(const OpSpec& spec) {
  if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
  return supports_f32_or_bf16(spec);
}

}  // namespace

const Kernel& highway_group_norm() {
  static const CpuKernel kernel({.name = "highway.group_norm",
                                 .op = Op::kGroupNorm,
                                 .supports = supports,
                                 .strides = StrideRule::kDense,
                                 .in_place = true,
                                 .plan = plan_group_norm});
  return kernel;
}

}  // namespace headroom
#endif
