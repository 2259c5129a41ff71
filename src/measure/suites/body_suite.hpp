#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "ir/graph.hpp"
#include "measure/results/result.hpp"
#include "measure/suites/bench_cases.hpp"

namespace headroom {

/// The data of a body's input.
struct BodyInput {
  float mean = 0;  ///< of normally distributed numbers
  float deviation = 1;
  std::int64_t columns =
      0;  ///< of an integer input [rows, 1]: an index into row i of a table [rows, columns], from its start
};

/// One problem of the suite `bodies`.
struct BodyCase {
  std::string name;               ///< "silu_mul bf16 medium 4608x3072"
  std::string body;               ///< "silu_mul"
  Graph graph;                    ///< plain ops, without weights
  std::vector<BodyInput> inputs;  ///< in the graph's order
};

/// The elementwise and reduction work between the matmuls of networks, and around them. Fourteen bodies, in f32 and
/// bf16 (the storage dtype; quantized results are f8e4m3). Each has three sizes: small, about 4 MiB in bf16; medium;
/// and large, at least 256 MiB read and written together.
[[nodiscard]] std::vector<BodyCase> list_body_cases();

/// Times every case of the suite that the filter selects, as bench_cases() does. The switches `arena` and `fuse` are
/// applied to its plain ops; it takes as many launches as its plan has. Floors are those of its inputs, outputs and
/// exponentials.
[[nodiscard]] ResultFile bench_bodies(Backend& backend, const KernelBenchOptions& options,
                                      const KernelBenchObserver& on_progress = {},
                                      const KernelBenchSkips& on_skip = {});

}  // namespace headroom
