#pragma once

#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "kernels/core/kernel.hpp"
#include "measure/protocol/op_run.hpp"
#include "measure/results/result.hpp"
#include "measure/suites/bench_cases.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

/// One problem of the suite `kernels`.
struct KernelCase {
  std::string name;  ///< "linear bf16 5440x768x192": op, dtype and the sizes that matter
  OpSpec spec;
  OpForm form = OpForm::kWhole;
};

/// The benchmarks of a kind of device in the table of cases (ir/test_cases/op_cases.hpp), fused ops also as the plain
/// ops that they replace. Cases for GPUs are left out on a CPU, which has plain loops for them or takes minutes.
[[nodiscard]] std::vector<KernelCase> list_kernel_cases(DeviceKind device);

/// Times every case of the suite that the filter selects, as bench_cases() does: ops one by one, each with the kernel
/// that a plan would choose.
[[nodiscard]] ResultFile bench_kernels(Backend& backend, const KernelBenchOptions& options,
                                       const KernelBenchObserver& on_progress = {},
                                       const KernelBenchSkips& on_skip = {});

/// The results of the suite as a table: time with interval, GFLOP/s or GB/s, the floor and the ratio of the time to
/// it. With several rounds, the ratio is the median over rounds.
[[nodiscard]] Printout to_kernel_table(const ResultFile& file);

}  // namespace headroom
