#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "ir/graph.hpp"
#include "measure/results/result.hpp"
#include "measure/suites/bench_cases.hpp"

namespace headroom {

/// What an input of a body is filled with.
struct BodyInput {
  float mean = 0;  ///< of normal numbers
  float deviation = 1;
  std::int64_t columns =
      0;  ///< of an integer input [rows, 1]: a place in row i of a table [rows, columns], from its start
};

/// One problem of the suite `bodies`.
struct BodyCase {
  std::string name;               ///< "silu_mul bf16 medium 4608x3072"
  std::string body;               ///< "silu_mul"
  Graph graph;                    ///< of plain ops, without weights
  std::vector<BodyInput> inputs;  ///< in the graph's order
};

/// What stands between the products of networks, and around them: fourteen bodies, in f32 and bf16 (what is stored;
/// quantized results are f8e4m3), each at three sizes: small, about 4 MiB in bf16; medium; and large, from 256 MiB on,
/// read and written together.
[[nodiscard]] std::vector<BodyCase> list_body_cases();

/// Times every case of the suite that the filter takes, as bench_cases() does: what the switches `arena` and `fuse` make of
/// its plain ops, in as many launches as its plan has. Floors are those of its inputs and outputs and of its exponentials.
[[nodiscard]] ResultFile bench_bodies(Backend& backend, const KernelBenchOptions& options,
                                      const KernelBenchObserver& on_progress = {},
                                      const KernelBenchSkips& on_skip = {});

}  // namespace headroom
