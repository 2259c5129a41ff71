#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// Tensors by the name of the input, param, state or output they stand for.
using NamedTensors = std::map<std::string, HostTensor, std::less<>>;

/// One tensor inside the oracle: every floating-point dtype is held in double, every integer dtype in 64 bits.
struct OracleTensor {
  TensorType type;
  std::vector<double> reals;           ///< row-major; used where is_float(type.dtype)
  std::vector<std::int64_t> integers;  ///< row-major; used elsewhere
};

/// What a run of the oracle leaves: outputs by name as f64 (floats) or i64 (integers), and the states' last values.
struct OracleResult {
  NamedTensors outputs;
  NamedTensors states;
};

/// The oracle: runs a graph in double precision on the CPU, one clear loop nest an op, fused ops through their
/// expansion. Casts round to their target dtype exactly; nothing else rounds, so a bf16 graph shows the error of its
/// casts only. Inputs and states are given by name in the dtype the graph declares, or wider (f64). Throws Error on a
/// missing or wrongly shaped tensor.
[[nodiscard]] OracleResult interpret(const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                                     const NamedTensors& states = {});

/// Evaluates one node on oracle tensors, fused ops through their definition; kernel tests compare with this.
[[nodiscard]] std::vector<OracleTensor> interpret_node(Op op, const Attributes& attributes,
                                                       const std::vector<OracleTensor>& inputs);
[[nodiscard]] std::vector<OracleTensor> interpret_node(Op op, const Attributes& attributes,
                                                       std::span<const OracleTensor* const> inputs);

}  // namespace headroom
