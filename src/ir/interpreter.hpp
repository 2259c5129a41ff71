#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// Tensors by the name of their input, param, state or output.
using NamedTensors = std::map<std::string, HostTensor, std::less<>>;

/// One tensor inside the oracle: every floating-point dtype is held in double, every integer dtype in 64 bits.
struct OracleTensor {
  TensorType type;
  std::vector<double> reals;           ///< row-major; used if is_float(type.dtype)
  std::vector<std::int64_t> integers;  ///< row-major; used otherwise
};

/// The result of an oracle run: outputs by name as f64 (floats) or i64 (integers), and the last values of the states.
struct OracleResult {
  NamedTensors outputs;
  NamedTensors states;
};

/// The oracle: runs a graph in double precision on the CPU, with one simple loop nest per op and fused ops through
/// their expansion. Casts round exactly to their target dtype and nothing else rounds, so a bf16 graph shows the
/// error of its casts only. Inputs and states are given by name, in the dtype that the graph declares or a wider one
/// (f64). Throws Error on a missing or wrongly shaped tensor.
[[nodiscard]] OracleResult interpret(const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                                     const NamedTensors& states = {});

/// The tensors of one rank.
struct RankTensors {
  NamedTensors inputs = {}, params = {}, states = {};
};
/// Runs the graphs of all ranks together, that of rank 0 first, each with its own tensors: collectives exchange their
/// operands. Throws Error if the graphs have other collectives or another order, and the first error of a rank.
[[nodiscard]] std::vector<OracleResult> interpret_ranks(std::span<const Graph> graphs,
                                                        std::span<const RankTensors> given);

/// Evaluates one node on oracle tensors, fused ops through their definition. Kernel tests compare with this.
[[nodiscard]] std::vector<OracleTensor> interpret_node(Op op, const Attributes& attributes,
                                                       const std::vector<OracleTensor>& inputs);
[[nodiscard]] std::vector<OracleTensor> interpret_node(Op op, const Attributes& attributes,
                                                       std::span<const OracleTensor* const> inputs);

}  // namespace headroom
