#pragma once

#include <functional>

#include "kernels/core/row_loop.hpp"
#include "kernels/core/written_kernel.hpp"

namespace headroom {

/// A kernel for CPUs; runs on the calling thread's OpenMP team.
class CpuKernel : public WrittenKernel {
 public:
  explicit CpuKernel(const KernelTraits& traits) : WrittenKernel(DeviceKind::kCpu, traits) {}
};

/// Rows of a launch for one thread.
struct RowPart {
  std::int64_t begin, end;
  bool past_cache;  ///< output 0 is written past the cache
  const LaunchArguments& arguments;
  float* scratch;  ///< the thread's own

  template <class T = void>
  [[nodiscard]] const T* input(std::size_t index) const {
    return arguments.input<T>(index);
  }
  template <class T = void>
  [[nodiscard]] T* output(std::size_t index) const {
    return arguments.output<T>(index);
  }
};

/// Rows that threads share.
struct RowWork {
  int threads = 1;
  std::int64_t rows = 0;
  std::int64_t elements = 0;          ///< of a row
  bool may_pass_cache = false;        ///< output 0 has rows that begin on cache lines and would be gone from the cache
  std::int64_t scratch_elements = 0;  ///< of f32, for a thread
};
/// For a loop whose last operand is output 0.
template <std::size_t N>
[[nodiscard]] RowWork row_work(const KernelBinding& binding, const RowLoop<N>& loop) {
  return {.threads = binding.threads,
          .rows = loop.rows,
          .elements = loop.row_length(),
          .may_pass_cache = binding.exceeds_cache && rows_begin_on_lines(loop, binding.outputs[0].type.dtype)};
}
/// A launch calls run() for one part of the rows after another on each thread. Over an input, whose lines are there
/// already, nothing is written past the cache.
[[nodiscard]] KernelPlan share_rows(const RowWork& work, std::function<void(const RowPart&)> run);

/// Elements of a row in whole groups (simd_inl.hpp) of any vector unit.
[[nodiscard]] constexpr std::int64_t whole_groups(std::int64_t elements) { return (elements + 31) / 32 * 32; }

/// Supported where output 0 is f32 or bf16 and every input has its dtype, or f32.
[[nodiscard]] Support supports_f32_or_bf16(const OpSpec& spec);
/// The same with row-major operands: for kernels that work along the innermost axis.
[[nodiscard]] Support supports_rows(const OpSpec& spec);

}  // namespace headroom
