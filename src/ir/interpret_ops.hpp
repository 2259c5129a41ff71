#pragma once

#include <vector>

#include "ir/interpreter.hpp"
#include "ir/op_definition.hpp"

namespace headroom::oracle {

/// A tensor of that type, all zeros.
[[nodiscard]] OracleTensor make_tensor(const TensorType& type);
/// Results of one op, fused ops through their definition.
[[nodiscard]] std::vector<OracleTensor> evaluate(Op op, const Attributes& attributes, Operands in);

}  // namespace headroom::oracle
