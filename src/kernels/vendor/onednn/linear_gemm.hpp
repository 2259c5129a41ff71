#pragma once

#include <cstdint>
#include <optional>

#include "kernels/core/kernel.hpp"
#include "kernels/matmul/activation_rows.hpp"
#include "kernels/matmul/linear_rows.hpp"
#include "kernels/vendor/onednn/engine.hpp"

namespace headroom::onednn {

/// The GEMM of a linear, except for its rows.
struct LinearProblem {
  DType dtype;  ///< of x and weight, and of y where it is not the sums
  std::int64_t n, k;
  std::optional<DType> bias;
  Activation activation;
  bool pack;  ///< the weight is constant over runs
};
[[nodiscard]] LinearProblem linear_problem(const OpSpec& spec);

/// The dense weight[n, k] read as the [k, n] that the GEMM wants.
[[nodiscard]] dnnl::memory::desc dense_weight(const LinearProblem& problem);

/// The epilogue of a GEMM.
enum class GemmEpilogue : std::uint8_t {
  kActivated,    ///< y in the problem's dtype, activation applied by oneDNN, unless it is relu
  kAccumulated,  ///< the sums in f32, without bias or activation
};
[[nodiscard]] dnnl::matmul::primitive_desc make_gemm(const LinearProblem& problem, const RowAxis& rows,
                                                     GemmEpilogue end, const dnnl::memory::desc& weight);
/// With packing, the layout that oneDNN likes best, unless that is a plain one: then the dense weight does as well.
[[nodiscard]] dnnl::matmul::primitive_desc choose_gemm(const LinearProblem& problem, const RowAxis& rows,
                                                       GemmEpilogue end);

}  // namespace headroom::onednn
