#pragma once

#include <span>
#include <vector>

#include "ir/interpreter.hpp"

// How the oracle evaluates single ops. Each function is given operands that infer() accepted and fills `out`, whose
// types are set and whose elements are allocated.

namespace headroom::oracle {

using Operands = std::span<const OracleTensor* const>;

/// A tensor of that type, all zeros.
[[nodiscard]] OracleTensor make_tensor(const TensorType& type);
/// Results of one op, fused ops through their definition.
[[nodiscard]] std::vector<OracleTensor> evaluate(Op op, const Attributes& attributes, Operands in);

// interpret_elementwise.cpp
/// `value` as the dtype holds it, integers saturating.
[[nodiscard]] double round_to(DType dtype, double value);
void binary(Op op, Operands in, OracleTensor& out);
void scalar(Op op, double value, const OracleTensor& x, OracleTensor& out);
void activate(Op op, const Attributes& attributes, const OracleTensor& x, OracleTensor& out);
void cast(const OracleTensor& x, OracleTensor& out);

// interpret_math.cpp
void linear(Operands in, OracleTensor& out);
/// out[0] takes the quantized elements, out[1] the scales.
void quantize(const OracleTensor& x, std::vector<OracleTensor>& out);
void matmul(const Attributes& attributes, Operands in, OracleTensor& out);
void softmax(const OracleTensor& x, OracleTensor& out);
void layer_norm(const Attributes& attributes, const OracleTensor& x, OracleTensor& out);
void rms_norm(const Attributes& attributes, Operands in, OracleTensor& out);
void rope_table(const Attributes& attributes, const OracleTensor& ids, std::vector<OracleTensor>& out);
void rope(Operands in, OracleTensor& out);
void timestep_embedding(const Attributes& attributes, const OracleTensor& t, OracleTensor& out);
void conv2d(const Attributes& attributes, Operands in, OracleTensor& out);
void max_pool2d(const Attributes& attributes, const OracleTensor& x, OracleTensor& out);
void mean(const OracleTensor& x, OracleTensor& out);

// interpret_movement.cpp
void reshape(const OracleTensor& x, OracleTensor& out);
void transpose(const Attributes& attributes, const OracleTensor& x, OracleTensor& out);
void concat(const Attributes& attributes, Operands in, OracleTensor& out);
void slice(const Attributes& attributes, const OracleTensor& x, OracleTensor& out);
void row(Operands in, OracleTensor& out);

}  // namespace headroom::oracle
