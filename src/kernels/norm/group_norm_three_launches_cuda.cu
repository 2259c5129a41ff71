// group_norm on a GPU: y = act((x - mean) / sqrt(variance + eps) * weight + bias)    Wu and He (2018)
//
// Shapes     x[b, c, ...], mean and variance over c/groups channels and all axes after them; row-major or channels
//            last.
// Dtypes     x, y f32, bf16 or f16; weight and bias the same or f32; f32 arithmetic, one rounding.
// Alignment  16 bytes. Channels or, if they do not come last, pixels in whole packs of 16 bytes go in packs; others
//            go element by element.
// Bytes      x read twice and y written once: three times an image, which no cache holds. 8 FLOPs an element.
//
// A line is walked in one stretch. It is an image of packs of channels if these come last. Otherwise it is one pack
// after the other of a group or, for the results, of a channel. Blocks share a line. Three launches:
//
//   take_moments   for each column of packs the mean and the sum of squares about it. A thread reads kPacks of them
//                  before it uses one, sums them about their own mean, and joins that to the moments so far (Chan,
//                  Golub and LeVeque 1979): nothing cancels, whatever the mean and the number of elements.
//   join_moments   a block for each group joins the moments of the blocks, in double, and writes for every channel a
//                  mean, a factor and a term, which includes the part of the mean below the last place of an f32.
//   write_results  y = act((x - mean) * factor + term). Blocks begin with the data read last, which may still be
//   cached.
//
// No sum depends on which block comes first.

#include <algorithm>

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/cuda/optional_vector.cuh"
#include "kernels/core/support.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kJoinThreads = 512;
constexpr int kPacks = 8;                   // that a thread reads at a time for the moments,
constexpr int kPacksWritten = 4;            // and for the results
constexpr std::int64_t kMostBlocks = 2048;  // some waves of blocks, so that the last is a small part of the work

/// Lines of `steps` pixels, or single packs, and how blocks share them: `chunk` steps of a tile of columns each.
struct Lines {
  std::int64_t count = 0, steps = 0;
  std::int64_t stride = 0;  ///< elements from a step to the next
  std::int64_t chunk = 0, chunks = 0;
  int columns = 1;  ///< packs of a step
  int across = 1;   ///< threads side by side on the columns of a tile
  int rows = 1;     ///< steps that a block takes at a time
  int tiles = 1;

  [[nodiscard]] dim3 blocks() const { return blocks_along_x(count * tiles * chunks); }
  [[nodiscard]] dim3 threads() const { return dim3(static_cast<unsigned>(across), static_cast<unsigned>(rows)); }
};

Lines share_lines(std::int64_t count, std::int64_t steps, std::int64_t columns, int width) {
  Lines lines{.count = count, .steps = steps, .stride = columns * width};
  lines.columns = static_cast<int>(columns);
  lines.across = static_cast<int>(divide_up(columns, divide_up(columns, kThreads)));
  lines.tiles = static_cast<int>(divide_up(columns, lines.across));
  const std::int64_t most_rows = kThreads / lines.across;
  lines.rows = static_cast<int>(std::min(most_rows, lines.across == 1 ? 32 * divide_up(steps, 32) : steps));
  const std::int64_t pass = std::int64_t{lines.rows} * kPacks;
  const std::int64_t passes = divide_up(steps, pass);
  const std::int64_t wanted = std::max<std::int64_t>(1, kMostBlocks / (count * lines.tiles));
  lines.chunk = divide_up(passes, wanted) * pass;
  lines.chunks = divide_up(steps, lines.chunk);
  return lines;
}

/// A thread's work: a column of a line, every rows-th step of [first, end).
struct Place {
  std::int64_t line, chunk, first, end;
  int column;
};
__device__ __forceinline__ Place find_place(const Lines& lines, std::int64_t block) {
  const Division by_chunk = divide(block, lines.chunks);
  const Division by_tile = divide(by_chunk.quotient, lines.tiles);
  const std::int64_t begin = by_chunk.remainder * lines.chunk;
  const std::int64_t end = begin + lines.chunk < lines.steps ? begin + lines.chunk : lines.steps;
  return {by_tile.quotient, by_chunk.remainder, begin + threadIdx.y, end,
          static_cast<int>(by_tile.remainder) * lines.across + static_cast<int>(threadIdx.x)};
}

/// Means and sums of squares about them, of `count` elements each, for the kWidth elements of a column of packs.
template <class T, int kWidth>
struct ColumnMoments {
  float mean[kWidth] = {};
  float squares[kWidth] = {};
  int count = 0;

  /// Joins those of the first `valid` of these packs.
  template <bool kAll>
  __device__ __forceinline__ void take(const typename Packs<T, kWidth>::Raw (&raw)[kPacks], int valid) {
    float own_mean[kWidth] = {}, own_squares[kWidth] = {};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!kAll && p >= valid) continue;
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[p], values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) own_mean[i] += values[i];
    }
    const float each = 1.0F / static_cast<float>(valid);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) own_mean[i] *= each;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!kAll && p >= valid) continue;
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[p], values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float beyond = values[i] - own_mean[i];
        own_squares[i] = fmaf(beyond, beyond, own_squares[i]);
      }
    }
    join(own_mean, own_squares, valid);
  }

  __device__ __forceinline__ void join(const float (&other_mean)[kWidth], const float (&other_squares)[kWidth],
                                       int other_count) {
    if (other_count == 0) return;
    const float share = static_cast<float>(other_count) / static_cast<float>(count + other_count);
    const float cross = static_cast<float>(count) * share;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float apart = other_mean[i] - mean[i];
      mean[i] = fmaf(apart, share, mean[i]);
      squares[i] += fmaf(apart * apart, cross, other_squares[i]);
    }
    count += other_count;
  }

  /// Joins those of the threads of a block that have the same column, in row 0; every thread of the block must call it.
  __device__ __forceinline__ void join_rows() {
    __shared__ float shared[2 * kWidth][kThreads];
    __shared__ int counts[kThreads];
    const auto across = static_cast<int>(blockDim.x);
    const auto row = static_cast<int>(threadIdx.y);
    const int own = row * across + static_cast<int>(threadIdx.x);
    for (int rows = static_cast<int>(blockDim.y); rows > 1;) {
      const int half = (rows + 1) / 2;
      if (row >= half && row < rows) {
        counts[own] = count;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) shared[i][own] = mean[i], shared[kWidth + i][own] = squares[i];
      }
      __syncthreads();
      if (row + half < rows) {
        const int other = own + half * across;
        float other_mean[kWidth], other_squares[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) other_mean[i] = shared[i][other], other_squares[i] = shared[kWidth + i][other];
        join(other_mean, other_squares, counts[other]);
      }
      rows = half;
      __syncthreads();
    }
  }
};

/// partial[line, chunk, stride]: mean and sum of squares of each element of a step.
template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads) take_moments(Lines lines, std::int64_t line_elements, std::int64_t groups,
                                                         std::int64_t image_elements, const T* x, float2* partial) {
  wait_for_previous();
  const Place place = find_place(lines, blockIdx.x);
  const bool exists = place.column < lines.columns;  // all threads of a block meet at the barriers
  const Division of_image = divide(place.line, groups);
  const T* const from = x + of_image.quotient * image_elements + of_image.remainder * line_elements +
                        static_cast<std::int64_t>(place.column) * kWidth;
  ColumnMoments<T, kWidth> moments;
  const std::int64_t rows = lines.rows;
  for (std::int64_t step = place.first; exists && step < place.end; step += rows * kPacks) {
    typename Packs<T, kWidth>::Raw raw[kPacks];
    const bool all = step + (kPacks - 1) * rows < place.end;
    if (all) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) raw[p] = Packs<T, kWidth>::read(from + (step + p * rows) * lines.stride);
      moments.template take<true>(raw, kPacks);
    } else {
      int valid = 0;
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
        if (step + p * rows < place.end) {
          raw[p] = Packs<T, kWidth>::read(from + (step + p * rows) * lines.stride);
          valid = p + 1;
        }
      moments.template take<false>(raw, valid);
    }
  }
  moments.join_rows();
  if (!exists || threadIdx.y != 0) return;
  float2* const to = partial + (place.line * lines.chunks + place.chunk) * lines.stride + place.column * kWidth;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) to[i] = make_float2(moments.mean[i], moments.squares[i]);
}

/// Shifts and scales of each channel of each image: y = (x - mean) * factor + term.
struct Tables {
  float *mean, *factor, *term;  ///< [images, channels]
};

/// The moments of a group, and the destination of the joined ones.
struct GroupJoin {
  std::int64_t groups, channels, width;  ///< width: channels of a group
  std::int64_t steps, chunk, chunks;
  std::int64_t line_stride,
      chunk_stride;  ///< of `partial`, from an image or, with lines of groups, a group to the next
  int columns;       ///< that a group has of each chunk
  bool lines_are_groups;
  DType side;
  double eps;
};

struct WideMoments {
  double count = 0, mean = 0, squares = 0;

  __device__ __forceinline__ void join(const WideMoments& other) {
    if (other.count == 0) return;
    const double share = other.count / (count + other.count), apart = other.mean - mean;
    mean += apart * share;
    squares += other.squares + apart * apart * count * share;
    count += other.count;
  }
};

__global__ void __launch_bounds__(kJoinThreads)
    join_moments(GroupJoin group, const float2* partial, const void* weight, const void* bias, Tables tables) {
  wait_for_previous();
  const std::int64_t image = blockIdx.x / group.groups, index = blockIdx.x % group.groups;
  const float2* const from = partial + (group.lines_are_groups ? blockIdx.x * group.line_stride
                                                               : image * group.line_stride + index * group.width);
  WideMoments moments;
#pragma unroll 4
  for (std::int64_t e = threadIdx.x; e < group.chunks * group.columns; e += kJoinThreads) {
    const Division at = divide(e, group.columns);
    const float2 part = from[at.quotient * group.chunk_stride + at.remainder];
    const std::int64_t left = group.steps - at.quotient * group.chunk;
    moments.join({static_cast<double>(left < group.chunk ? left : group.chunk), part.x, part.y});
  }
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) {
    const WideMoments other{__shfl_down_sync(0xFFFFFFFFU, moments.count, lane),
                            __shfl_down_sync(0xFFFFFFFFU, moments.mean, lane),
                            __shfl_down_sync(0xFFFFFFFFU, moments.squares, lane)};
    moments.join(other);
  }
  __shared__ double shared[3][kJoinThreads / 32];
  if (threadIdx.x % 32 == 0) {
    shared[0][threadIdx.x / 32] = moments.count;
    shared[1][threadIdx.x / 32] = moments.mean;
    shared[2][threadIdx.x / 32] = moments.squares;
  }
  __syncthreads();
  WideMoments all;
  for (int warp = 0; warp < kJoinThreads / 32; ++warp) all.join({shared[0][warp], shared[1][warp], shared[2][warp]});

  const double inverse = 1.0 / sqrt(all.squares / all.count + group.eps);
  const auto mean = static_cast<float>(all.mean);
  const double below = all.mean - static_cast<double>(mean);
  for (std::int64_t c = threadIdx.x; c < group.width; c += kJoinThreads) {
    const std::int64_t channel = index * group.width + c, place = image * group.channels + channel;
    const double factor = inverse * optional_vector_at(weight, group.side, channel, 1);
    tables.mean[place] = mean;
    tables.factor[place] = static_cast<float>(factor);
    tables.term[place] = static_cast<float>(optional_vector_at(bias, group.side, channel, 0) - below * factor);
  }
}

/// The channels of a column: kWidth of them where they come last, otherwise the line's one. Those from `counted` on
/// become 0.
template <int kWidth>
struct ChannelTable {
  float mean[kWidth], factor[kWidth], term[kWidth];
  int counted;

  __device__ __forceinline__ ChannelTable(const Tables& tables, const Place& place, std::int64_t channels,
                                          std::int64_t counted_channels, bool channels_last) {
    const std::int64_t first = static_cast<std::int64_t>(place.column) * kWidth;
    if (channels_last) {
      const std::int64_t at = place.line * channels + first, left = counted_channels - first;
      counted = static_cast<int>(left < 0 ? 0 : left < kWidth ? left : kWidth);
      load(tables.mean + at, mean);
      load(tables.factor + at, factor);
      load(tables.term + at, term);
    } else {
      counted = divide(place.line, channels).remainder < counted_channels ? kWidth : 0;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        mean[i] = tables.mean[place.line];
        factor[i] = tables.factor[place.line];
        term[i] = tables.term[place.line];
      }
    }
  }
};

template <Activation kActivation>
constexpr Op kFunction = op_of(kActivation);

template <Activation kActivation, class T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    write_results(Lines lines, std::int64_t line_elements, std::int64_t channels, std::int64_t counted,
                  bool channels_last, Tables tables, const T* x, T* y) {
  wait_for_previous();
  const Place place = find_place(lines, static_cast<std::int64_t>(gridDim.x) - 1 - blockIdx.x);
  if (place.column >= lines.columns) return;
  const ChannelTable<kWidth> table(tables, place, channels, counted, channels_last);
  const std::int64_t start = place.line * line_elements + static_cast<std::int64_t>(place.column) * kWidth;
  const std::int64_t rows = lines.rows;
  for (std::int64_t step = place.first; step < place.end; step += rows * kPacksWritten) {
    typename Packs<T, kWidth>::Raw raw[kPacksWritten];
#pragma unroll
    for (int p = 0; p < kPacksWritten; ++p)
      if (step + p * rows < place.end) raw[p] = Packs<T, kWidth>::read(x + start + (step + p * rows) * lines.stride);
#pragma unroll
    for (int p = 0; p < kPacksWritten; ++p) {
      if (step + p * rows >= place.end) continue;
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[p], values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        float value = fmaf(values[i] - table.mean[i], table.factor[i], table.term[i]);
        if constexpr (kActivation != Activation::kNone) value = formula<kFunction<kActivation>>(value);
        values[i] = i < table.counted ? value : 0.0F;
      }
      Packs<T, kWidth>::store(values, y + start + (step + p * rows) * lines.stride);
    }
  }
}

/// A launch of group_norm, all but its addresses.
struct GroupNorm {
  DType dtype = DType::kF32, side = DType::kF32;
  Activation activation = Activation::kNone;
  bool is_wide = false, channels_last = false;
  std::int64_t images = 0, channels = 0, pixels = 0, counted = 0;
  Lines moments = {}, results = {};
  GroupJoin join = {};

  [[nodiscard]] std::size_t partial_bytes() const {
    return static_cast<std::size_t>(moments.count * moments.chunks * moments.stride) * sizeof(float2);
  }
  /// The size of a table, whose rows are read in packs.
  [[nodiscard]] std::size_t table_bytes() const {
    return static_cast<std::size_t>(divide_up(images * channels, 4) * 4) * sizeof(float);
  }
};

GroupNorm prepare(const KernelBinding& binding) {
  const TensorType& x = binding.inputs[0].type;
  const Attributes& attributes = binding.spec.attributes;
  GroupNorm norm{.dtype = x.dtype,
                 .side = binding.inputs.back().type.dtype,
                 .activation = only_activation_of(binding.spec),
                 .channels_last = x.layout == Layout::kChannelsLast,
                 .images = x.shape[0],
                 .channels = x.shape[1]};
  const std::int64_t groups = attributes[attr::kGroups], given = attributes[attr::kChannels];
  norm.counted = given == 0 ? norm.channels : given;
  norm.pixels = x.shape.numel() / std::max<std::int64_t>(1, norm.images * norm.channels);
  const auto full = static_cast<int>(16 / size_of(x.dtype));
  norm.is_wide = (norm.channels_last ? norm.channels : norm.pixels) % full == 0;
  const int pack = norm.is_wide ? full : 1;
  const std::int64_t width = norm.counted / groups;
  if (norm.channels_last) {
    norm.moments = norm.results = share_lines(norm.images, norm.pixels, norm.channels / pack, pack);
  } else {
    norm.moments = share_lines(norm.images * groups, width * norm.pixels / pack, 1, pack);
    norm.results = share_lines(norm.images * norm.channels, norm.pixels / pack, 1, pack);
  }
  norm.join = {.groups = groups,
               .channels = norm.channels,
               .width = width,
               .steps = norm.moments.steps,
               .chunk = norm.moments.chunk,
               .chunks = norm.moments.chunks,
               .line_stride = norm.moments.chunks * norm.moments.stride,
               .chunk_stride = norm.moments.stride,
               .columns = norm.channels_last ? static_cast<int>(width) : pack,
               .lines_are_groups = !norm.channels_last,
               .side = norm.side,
               .eps = attributes[attr::kEps]};
  return norm;
}

template <class T, int kWidth>
void launch_packs(cudaStream_t stream, const GroupNorm& norm, const LaunchArguments& arguments) {
  const auto* const x = arguments.input<T>(0);
  auto* const y = arguments.output<T>(0);
  auto* const scratch = arguments.scratch_memory<std::byte>();
  const auto table = [&](std::size_t index) { return reinterpret_cast<float*>(scratch + index * norm.table_bytes()); };
  const Tables tables{table(0), table(1), table(2)};
  auto* const partial = reinterpret_cast<float2*>(scratch + 3 * norm.table_bytes());

  const std::int64_t image = norm.channels * norm.pixels;
  const std::int64_t groups = norm.channels_last ? 1 : norm.join.groups;  // lines of an image
  launch_early(take_moments<T, kWidth>, {norm.moments.blocks(), norm.moments.threads(), stream}, norm.moments,
               norm.join.width * norm.pixels, groups, image, x, partial);
  launch_early(join_moments, {blocks_along_x(norm.images * norm.join.groups), kJoinThreads, stream}, norm.join, partial,
               arguments.optional_input(1), arguments.optional_input(2), tables);
  const auto write = [&](auto kernel) {
    launch_early(kernel, {norm.results.blocks(), norm.results.threads(), stream}, norm.results,
                 norm.channels_last ? image : norm.pixels, norm.channels, norm.counted, norm.channels_last, tables, x,
                 y);
  };
  switch (norm.activation) {
    case Activation::kNone:
      return write(write_results<Activation::kNone, T, kWidth>);
    case Activation::kGeluTanh:
      return write(write_results<Activation::kGeluTanh, T, kWidth>);
    case Activation::kGeluErf:
      return write(write_results<Activation::kGeluErf, T, kWidth>);
    case Activation::kSilu:
      return write(write_results<Activation::kSilu, T, kWidth>);
    case Activation::kRelu:
      return write(write_results<Activation::kRelu, T, kWidth>);
  }
}

KernelPlan plan(const KernelBinding& binding) {
  if (binding.outputs[0].type.shape.numel() == 0) return {[](const LaunchArguments&) {}};
  const GroupNorm norm = prepare(binding);
  const auto launch = [norm](const LaunchArguments& arguments) {
    auto* const stream = static_cast<cudaStream_t>(arguments.stream.native_handle());
    with_type_of(norm.dtype, [&](auto type) {
      using T = decltype(type);
      norm.is_wide ? launch_packs<T, kFullPack<T>>(stream, norm, arguments)
                   : launch_packs<T, 1>(stream, norm, arguments);
    });
    check_launched("cuda group_norm kernel");
  };
  return {launch, 3 * norm.table_bytes() + norm.partial_bytes()};
}

Support supports(const OpSpec& spec) {
  if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
  return supports_elements(spec);
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_group_norm() {
  static const cuda::CudaKernel kernel({.name = "cuda.group_norm",
                                        .op = Op::kGroupNorm,
                                        .supports = cuda::supports,
                                        .strides = StrideRule(StrideRule::kDense, 16),
                                        .in_place = true,
                                        .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
