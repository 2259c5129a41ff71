// scatter_add on a GPU: y[n, :] = x[n, :] + the sum of updates[i, :] over the i for which ids[i] is n
//
// Dtypes     f32, bf16 or f16 in memory, sums in f32, one rounding; ids of i32 or i64. One outside takes the nearest
//            row.
// Strides    dense.
// Bytes      x and updates read and y written once, if x and y are apart; the ids a few times for their sort
//
// Updates are sorted by row, those of one row in their order (cub::DeviceRadixSort, which is stable). A block sums
// kSegment neighbours of this order, row by row. A row whose updates all lie in one segment is finished there. Parts of
// others go to scratch memory, and a second kernel joins them in their order. So a row that has thousands of updates,
// as the most frequent token of a text, is shared by many blocks, and the same bits come out in every run.

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "backends/cuda/cuda_check.cuh"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/cuda/or_cannot_prepare.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;    // that look at ids
constexpr int kSumThreads = 64;  // each with a pack of columns
constexpr int kSegment = 32;     // sorted updates of a block
constexpr int kAtOnce = 8;       // of these, read before any is added

struct Scatter {
  std::int64_t rows, length, updates;
  int segments;
  bool has_wide_ids;
};

/// The updates in the order of their rows, and the sums of rows that several segments share: for each segment that of
/// its first row, if that began before, and that of its last one, if that goes on.
struct Sorted {
  const std::uint32_t* rows;
  const std::uint32_t* updates;
  float* parts;  // [segments, 2, length]
};

__global__ void __launch_bounds__(kThreads)
    number_updates(Scatter scatter, const void* ids, std::uint32_t* rows, std::uint32_t* updates) {
  wait_for_previous();
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (own >= scatter.updates) return;
  const std::int64_t id = scatter.has_wide_ids ? static_cast<const std::int64_t*>(ids)[own]
                                               : std::int64_t{static_cast<const std::int32_t*>(ids)[own]};
  rows[own] = static_cast<std::uint32_t>(id < 0 ? 0 : id < scatter.rows ? id : scatter.rows - 1);
  updates[own] = static_cast<std::uint32_t>(own);
}

/// Adds sums to a row of x.
template <class T, int kWidth>
__device__ __forceinline__ void add_to_row(const T* x, T* y, const float (&sums)[kWidth]) {
  float values[kWidth];
  load<T, kWidth>(x, values);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] += sums[i];
  Packs<T, kWidth>::store(values, y);
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kSumThreads)
    sum_segments(Scatter scatter, Sorted sorted, const T* x, const T* updates, T* y) {
  wait_for_previous();
  __shared__ std::uint32_t rows[kSegment + 2], sources[kSegment];  // with the rows before and after the segment
  constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  const std::int64_t segment = blockIdx.x, first = segment * kSegment;
  const int count = static_cast<int>(min(std::int64_t{kSegment}, scatter.updates - first));
  for (int i = static_cast<int>(threadIdx.x); i < count + 2; i += kSumThreads) {
    const std::int64_t at = first + i - 1;
    rows[i] = at < 0 || at >= scatter.updates ? kNone : sorted.rows[at];
    if (i < count) sources[i] = sorted.updates[first + i];
  }
  __syncthreads();
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kSumThreads + threadIdx.x) * kWidth;
  if (column >= scatter.length) return;
  float sums[kWidth] = {};
  int begin = 0;  // of the row that is summed
  for (int i = 0; i < count; i += kAtOnce) {
    typename Packs<T, kWidth>::Raw raw[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k < count) raw[k] = Packs<T, kWidth>::read(updates + sources[i + k] * scatter.length + column);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k >= count) break;
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[k], values);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sums[j] += values[j];
      const std::uint32_t row = rows[i + k + 1];
      const bool ends = rows[i + k + 2] != row;
      if (!ends && i + k + 1 < count) continue;
      const bool began_before = begin == 0 && rows[0] == row;
      if (began_before || !ends) {
        Packs<float, kWidth>::store(sums,
                                    sorted.parts + (2 * segment + (began_before ? 0 : 1)) * scatter.length + column);
      } else {
        const std::int64_t to = row * scatter.length + column;
        add_to_row<T, kWidth>(x + to, y + to, sums);
      }
      begin = i + k + 1;
#pragma unroll
      for (float& sum : sums) sum = 0;
    }
  }
}

/// A block for each segment: joins the parts of a row that begins in it and goes on.
template <class T, int kWidth>
__global__ void __launch_bounds__(kSumThreads) join_segments(Scatter scatter, Sorted sorted, const T* x, T* y) {
  wait_for_previous();
  const std::int64_t segment = blockIdx.x, first = segment * kSegment, after = first + kSegment;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kSumThreads + threadIdx.x) * kWidth;
  if (after >= scatter.updates || column >= scatter.length) return;
  const std::uint32_t row = sorted.rows[after - 1];
  const bool began_before = first > 0 && sorted.rows[first - 1] == row;
  if (began_before || sorted.rows[after] != row) return;
  float sums[kWidth];
  load<float, kWidth>(sorted.parts + (2 * segment + 1) * scatter.length + column, sums);
  for (std::int64_t other = segment + 1;; ++other) {
    float more[kWidth];
    load<float, kWidth>(sorted.parts + 2 * other * scatter.length + column, more);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] += more[i];
    const std::int64_t end = (other + 1) * kSegment;
    if (end >= scatter.updates || sorted.rows[end] != row) break;
  }
  const std::int64_t to = row * scatter.length + column;
  add_to_row<T, kWidth>(x + to, y + to, sums);
}

int bits_of_rows(const Scatter& scatter) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(scatter.rows - 1))));
}

/// Sorts rows[0] with updates[0] into rows[1] and updates[1]; without scratch memory it sets its size.
void sort_updates(const Scatter& scatter, void* scratch, std::size_t& bytes, std::uint32_t* const (&rows)[2],
                  std::uint32_t* const (&updates)[2], cudaStream_t stream) {
  const cudaError_t status = cub::DeviceRadixSort::SortPairs(scratch, bytes, rows[0], rows[1], updates[0], updates[1],
                                                             scatter.updates, 0, bits_of_rows(scatter), stream);
  if (status != cudaSuccess) fail("the sort of scatter_add's updates failed: {}", cudaGetErrorString(status));
}

template <class T>
void sum_up(const Scatter& scatter, const Sorted& sorted, const T* x, const T* updates, T* y, cudaStream_t stream) {
  const auto launch = [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const dim3 blocks(static_cast<unsigned>(scatter.segments),
                      static_cast<unsigned>(divide_up<std::int64_t>(scatter.length, kSumThreads * kWidth)));
    launch_early(sum_segments<T, kWidth>, {blocks, kSumThreads, stream}, scatter, sorted, x, updates, y);
    if (scatter.segments > 1)
      launch_early(join_segments<T, kWidth>, {blocks, kSumThreads, stream}, scatter, sorted, x, y);
  };
  const bool is_aligned = ((reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(updates) |
                            reinterpret_cast<std::uintptr_t>(y)) &
                           15U) == 0;
  if (is_aligned && scatter.length % kFullPack<T> == 0)
    launch(std::integral_constant<int, kFullPack<T>>());
  else
    launch(std::integral_constant<int, 1>());
}

KernelPlan plan(const KernelBinding& binding) {
  const TensorType& type = binding.outputs[0].type;
  const std::int64_t updates = binding.inputs[1].type.shape[0];
  const Scatter scatter{.rows = type.shape[0],
                        .length = type.shape.numel() / type.shape[0],
                        .updates = updates,
                        .segments = static_cast<int>(divide_up<std::int64_t>(updates, kSegment)),
                        .has_wide_ids = binding.inputs[1].type.dtype == DType::kI64};
  std::size_t sort_bytes = 0;
  if (updates > 0) or_cannot_prepare([&] { sort_updates(scatter, nullptr, sort_bytes, {}, {}, nullptr); });
  const std::size_t ids_bytes = part_bytes(static_cast<std::size_t>(updates) * sizeof(std::uint32_t));
  const std::size_t parts_bytes =
      part_bytes(sizeof(float) * 2 * static_cast<std::size_t>(scatter.segments * scatter.length));
  const auto launch = [=, dtype = type.dtype, bytes = type.bytes()](const LaunchArguments& arguments) {
    auto* const stream = static_cast<cudaStream_t>(arguments.stream.native_handle());
    if (arguments.output(0) != arguments.input(0))
      check(cudaMemcpyAsync(arguments.output(0), arguments.input(0), bytes, cudaMemcpyDeviceToDevice, stream));
    if (updates == 0) return;
    auto* const scratch = arguments.scratch_memory<std::byte>();
    const auto ids_at = [&](std::size_t i) {
      return reinterpret_cast<std::uint32_t*>(scratch + parts_bytes + i * ids_bytes);
    };
    std::uint32_t* const rows[2] = {ids_at(0), ids_at(1)};
    std::uint32_t* const numbers[2] = {ids_at(2), ids_at(3)};
    launch_early(number_updates, {blocks_along_x(divide_up<std::int64_t>(updates, kThreads)), kThreads, stream},
                 scatter, arguments.input(1), rows[0], numbers[0]);
    std::size_t sort_scratch = sort_bytes;
    sort_updates(scatter, scratch + parts_bytes + 4 * ids_bytes, sort_scratch, rows, numbers, stream);
    const Sorted sorted{rows[1], numbers[1], reinterpret_cast<float*>(scratch)};
    with_type_of(dtype, [&](auto element) {
      using T = decltype(element);
      sum_up(scatter, sorted, arguments.output<T>(0), arguments.input<T>(2), arguments.output<T>(0), stream);
    });
    check_launched("cuda scatter_add kernel");
  };
  return {launch, parts_bytes + 4 * ids_bytes + sort_bytes};
}

Support supports(const OpSpec& spec) {
  constexpr std::int64_t kMostBlocks = 65535;  // along y
  constexpr std::int64_t kMost = INT32_MAX;
  const TensorType& x = spec.inputs[0];
  if (!is_element(x.dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", x.dtype)};
  if (x.shape.numel() == 0 || x.shape.numel() / x.shape[0] > kMostBlocks * kSumThreads)
    return Rejection{fmt::format("takes rows of up to {} elements", kMostBlocks * kSumThreads)};
  if (x.shape[0] > kMost || spec.inputs[1].shape[0] > kMost)
    return Rejection{fmt::format("takes up to {} rows and updates", kMost)};
  return supports_row_major(spec);
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_scatter_add() {
  static const cuda::CudaKernel kernel({.name = "cuda.scatter_add",
                                        .op = Op::kScatterAdd,
                                        .supports = cuda::supports,
                                        .strides = StrideRule::kDense,
                                        .in_place = true,
                                        .kept = 0b110,
                                        .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
