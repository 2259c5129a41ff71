#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/activation_rows.hpp"
#include "kernels/kernel.hpp"
#include "kernels/onednn/engine.hpp"

namespace headroom::onednn {

/// One level of the walk over rows: how many, and the strides of x and y between them in elements.
struct RowAxis {
  std::int64_t extent;
  std::int64_t x_stride;
  std::int64_t y_stride;
};

/// Rows as one matrix product and the loops around it.
struct RowPlan {
  RowAxis rows;  ///< of the product
  std::vector<RowAxis> loops;

  /// Products that the loops make.
  [[nodiscard]] std::int64_t count() const;
  struct Offsets {
    std::int64_t x, y;  ///< in elements
  };
  [[nodiscard]] Offsets offsets(std::int64_t product) const;
};
/// The leading axes merged as far as the strides of both operands allow. The innermost becomes the product's rows,
/// whose operands then lie close together, or the longest where that has only a few.
[[nodiscard]] RowPlan plan_rows(const Operand& x, const Operand& y);

/// What a linear's product is, but for its rows.
struct LinearProblem {
  DType dtype;  ///< of x, weight and y
  std::int64_t n, k;
  std::optional<DType> bias;
  Activation activation;
  bool pack;  ///< the weight is constant over runs
};
[[nodiscard]] LinearProblem linear_problem(const OpSpec& spec);

/// The dense weight[n, k] read as the [k, n] that the product wants.
[[nodiscard]] dnnl::memory::desc dense_weight(const LinearProblem& problem);

/// How a product ends.
enum class ProductEnd : std::uint8_t {
  kActivated,    ///< y in the problem's dtype, activation applied by oneDNN
  kAccumulated,  ///< the biased sums in f32, nothing applied
};
[[nodiscard]] dnnl::matmul::primitive_desc make_product(const LinearProblem& problem, const RowAxis& rows,
                                                        ProductEnd end, const dnnl::memory::desc& weight);
/// With packing, the layout that oneDNN likes best, unless that is a plain one: then the dense weight does as well.
[[nodiscard]] dnnl::matmul::primitive_desc choose_product(const LinearProblem& problem, const RowAxis& rows,
                                                          ProductEnd end);

}  // namespace headroom::onednn
