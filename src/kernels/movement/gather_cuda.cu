// gather on a GPU: y[i..., :] = table[ids[i...], :]
//
// Dtypes     any; ids of i32 or i64. One outside the table takes the nearest row that there is.
// Strides    any. Runs that are contiguous in table and result go in units of 16 bytes at most, as copy_cuda.cu's do.
// Bytes      rows read and written once, and for each unit its id, from the cache.

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/indexing.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

/// Operands table, ids, result; strides of the first and last in bytes, of ids in elements. With `ids_differ`, each
/// element of a row has an id of its own, and a row of the table is one element.
struct Gather {
  GridRows<3> grid;  // length in bytes
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;  // from one row of the table to the next
  int element_bytes = 1;
  bool has_wide_ids = false;
  bool ids_differ = false;
};

template <class Unit>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(Gather gather, std::int64_t units_per_row, const std::byte* table, const void* ids, std::byte* y) {
  wait_for_previous();
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(index, units_per_row);
  if (at.quotient >= gather.grid.rows) return;
  std::int64_t offsets[3];
  find_row(gather.grid, at.quotient, offsets);
  const std::int64_t place = offsets[1] + (gather.ids_differ ? at.remainder : 0);
  const std::int64_t id = gather.has_wide_ids ? static_cast<const std::int64_t*>(ids)[place]
                                              : std::int64_t{static_cast<const std::int32_t*>(ids)[place]};
  const std::int64_t row = id < 0 ? 0 : id < gather.rows ? id : gather.rows - 1;
  const std::int64_t column = at.remainder * static_cast<std::int64_t>(sizeof(Unit));
  const std::byte* const from = table + row * gather.row_bytes + offsets[0] + (gather.ids_differ ? 0 : column);
  *reinterpret_cast<Unit*>(y + offsets[2] + column) = *reinterpret_cast<const Unit*>(from);
}

template <class Unit>
void launch_units(cudaStream_t stream, const Gather& gather, const void* table, const void* ids, void* y) {
  const std::int64_t units = gather.grid.length / static_cast<std::int64_t>(sizeof(Unit));
  launch_early(gather_kernel<Unit>, {blocks_along_x(divide_up(gather.grid.rows * units, kThreads)), kThreads, stream},
               gather, units, static_cast<const std::byte*>(table), ids, static_cast<std::byte*>(y));
  check_launched("cuda gather kernel");
}

void launch(cudaStream_t stream, const Gather& gather, const void* table, const void* ids, void* y) {
  if (gather.grid.rows * gather.grid.length == 0) return;
  const auto fits = [&](int unit) {
    if (gather.ids_differ || gather.grid.length % unit != 0 || gather.row_bytes % unit != 0) return false;
    for (int axis = 0; axis < gather.grid.rank; ++axis)
      if (gather.grid.strides[axis][0] % unit != 0 || gather.grid.strides[axis][2] % unit != 0) return false;
    const auto size = static_cast<std::uintptr_t>(unit);
    return reinterpret_cast<std::uintptr_t>(table) % size == 0 && reinterpret_cast<std::uintptr_t>(y) % size == 0;
  };
  int unit = 16;
  while (unit > gather.element_bytes && !fits(unit)) unit /= 2;
  switch (unit) {
    case 16:
      return launch_units<uint4>(stream, gather, table, ids, y);
    case 8:
      return launch_units<std::uint64_t>(stream, gather, table, ids, y);
    case 4:
      return launch_units<std::uint32_t>(stream, gather, table, ids, y);
    case 2:
      return launch_units<std::uint16_t>(stream, gather, table, ids, y);
    default:
      return launch_units<std::uint8_t>(stream, gather, table, ids, y);
  }
}

KernelPlan plan(const KernelBinding& binding) {
  const GatheredRows rows = gathered_rows(binding);
  const auto size = static_cast<std::int64_t>(size_of(binding.outputs[0].type.dtype));
  Gather gather{.grid = longest_grid<3>(binding.outputs[0].type.shape, rows.strides),
                .rows = rows.ids.rows,
                .row_bytes = rows.row_stride * size,
                .element_bytes = static_cast<int>(size),
                .has_wide_ids = rows.ids.is_wide};
  gather.ids_differ = gather.grid.length > 1 && !gather.grid.repeats[1];
  gather.grid.length *= size;
  for (int axis = 0; axis < gather.grid.rank; ++axis)
    for (const int operand : {0, 2}) gather.grid.strides[axis][operand] *= size;
  return {[gather](const LaunchArguments& arguments) {
    launch(static_cast<cudaStream_t>(arguments.stream.native_handle()), gather, arguments.input(0), arguments.input(1),
           arguments.output(0));
  }};
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_gather() {
  static const cuda::CudaKernel kernel({.name = "cuda.gather",
                                        .op = Op::kGather,
                                        .supports = supports_all_types,
                                        .strides = StrideRule::kAny,
                                        .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
