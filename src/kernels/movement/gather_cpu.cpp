// gather: y[i..., :] = table[ids[i...], :]
//
// Dtypes     any; ids of i32 or i64. One outside the table takes the nearest row that there is.
// Strides    any.
// Bytes      y's read and y's written, and the ids once for each run of y that is contiguous; no arithmetic.

#include <algorithm>
#include <cstring>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/indexing.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom {
namespace {

KernelPlan plan_gather(const KernelBinding& binding) {
  const GatheredRows rows = gathered_rows(binding);
  const RowLoop<3> loop = longest_rows<3>(binding.outputs[0].type.shape, rows.strides);
  const auto size = static_cast<std::int64_t>(size_of(binding.outputs[0].type.dtype));
  return {[=, threads = binding.threads](const LaunchArguments& arguments) {
    const auto* const table = arguments.input<std::byte>(0);
    const auto* const ids = arguments.input<std::byte>(1);
    auto* const y = arguments.output<std::byte>(0);
    const std::int64_t id_step = loop.inner.strides[1], table_step = loop.inner.strides[0];
    parallel_for(threads, loop.rows, grain_of(loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
      RowCursor cursor(loop, begin);
      for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
        const bool is_of_one = id_step == 0 || cursor.length() == 1;
        const std::int64_t run = is_of_one ? cursor.length() : 1;
        for (std::int64_t i = 0; i < cursor.length(); i += run) {
          const std::int64_t id = rows.ids.row(ids, cursor.offset(1) + i * id_step);
          const std::int64_t from = cursor.offset(0) + i * table_step + id * rows.row_stride;
          std::memcpy(y + (cursor.offset(2) + i) * size, table + from * size, static_cast<std::size_t>(run * size));
        }
      }
    });
  }};
}

}  // namespace

const Kernel& highway_gather() {
  static const CpuKernel kernel({.name = "highway.gather",
                                 .op = Op::kGather,
                                 .supports = supports_all_types,
                                 .strides = StrideRule::kAny,
                                 .plan = plan_gather});
  return kernel;
}

}  // namespace headroom
