// Elementwise products, matmuls and convolutions.

#include <algorithm>
#include <cmath>

#include "differential/bound_parts.hpp"

namespace headroom::differential {
namespace {

constexpr double kTf32Unit = 0x1p-10;  // of a product of two operands rounded to 11 bits
// Tensor cores accumulate products of 8-bit floats in fixed point, with 14 bits below the leading bit of the largest,
// and truncate the rest. Each product loses up to this fraction of the largest (DeepSeek-AI, "DeepSeek-V3 technical
// report", 2024, section 3.5.2).
constexpr double kFloat8Unit = 0x1p-13;

/// The number of products that are summed into a result.
double terms_of(const Site& site) {
  if (site.op == Op::kMul) return 1;
  const Shape& weight = site.operands[1]->value.type.shape;
  if (site.op == Op::kConv2d) return static_cast<double>(weight.numel() / weight[0]);
  if (site.op == Op::kConvTranspose2d) return static_cast<double>(weight.numel() / weight[1]);  // an upper bound
  return static_cast<double>(site.operands[0]->value.type.shape[-1]);
}

/// A convolution by itself, without a shortcut.
bool is_single_convolution(Op op) { return op == Op::kConv2d || op == Op::kConvTranspose2d; }

/// Half a step of a convolution's sums, with and without the bias, if a GPU stores them in 16 bits before another
/// kernel applies the epilogue.
double rounded_on_the_way(const Site& site, std::size_t i) {
  const bool has_bias = site.operands.size() > 2;
  if (site.covers != Covers::kCudaKernels || (!has_bias && !site.within.is_cublaslt) ||
      !is_narrow(site.results[0].type.dtype))
    return 0;
  const Shape& shape = site.results[0].type.shape;  // [b, o, h, w]
  const auto image = static_cast<std::size_t>(shape[2] * shape[3]), channels = static_cast<std::size_t>(shape[1]);
  const double sums = site.results[0].reals[i];
  const double product = sums - (has_bias ? site.operands[2]->value.reals[i / image % channels] : 0);
  return storage_unit(site.results[0].type.dtype).relative * (std::fabs(product) + std::fabs(sums));
}

/// Half a step of the matmul alone, if cuBLASLt rounds it to 16 bits before it adds the bias and applies the
/// function. Some of its algorithms do (docs/gpu_facts.md).
double rounded_before_bias(const Site& site, std::size_t i) {
  if (is_single_convolution(site.op)) return rounded_on_the_way(site, i);
  if (!site.within.is_cublaslt || site.operands.size() < 3 || !is_narrow(site.within.makes)) return 0;
  const OracleTensor& bias = site.operands[2]->value;
  const double product = site.results[0].reals[i] - bias.reals[i % bias.reals.size()];
  return storage_unit(site.within.makes).relative * std::fabs(product);
}

}  // namespace

/// Linear in every operand, and a sum of products: the error is at most that with all terms positive. Products and
/// sums below the normal range may be flushed to zero one by one (Intel SDM, VDPBF16PS and TDPBF16PS always do).
Errors contraction_errors(const Site& site) {
  std::vector<Field> sizes, reaches;
  bool are_exact = true;
  for (const Bounded* operand : site.operands) {
    are_exact = are_exact && std::ranges::count(operand->error, 0) == std::ssize(operand->error);
    sizes.push_back(magnitudes(operand->value));
    reaches.push_back(sizes.back());
    for (std::size_t i = 0; i < reaches.back().size(); ++i) reaches.back()[i] += operand->error[i];
  }
  double unit = (terms_of(site) + 2) * arithmetic_unit(site.covers);
  const double flushed = site.covers == Covers::kReals ? 0 : terms_of(site) * storage_unit(DType::kF32).least;
  const bool may_be_tf32 = site.op == Op::kLinear || site.op == Op::kMatmul || is_single_convolution(site.op);
  if (may_be_tf32 && site.attributes[attr::kTf32]) unit += kTf32Unit;
  if (site.op == Op::kLinear && site.within.multiplies_f8 && site.covers != Covers::kReals)
    unit += terms_of(site) * kFloat8Unit;
  const Field size = evaluate(site, site.op, site.attributes, sizes);
  Field error = are_exact ? size : evaluate(site, site.op, site.attributes, reaches);
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double reach = error[i];
    error[i] = std::max(0.0, reach - size[i]) + unit * reach + flushed + rounded_before_bias(site, i);
  }
  return {error};
}

}  // namespace headroom::differential
