// Error bounds of the results of each plain op with respect to the oracle, given the bounds of its operands.
//
// The table has one row per op. A rule propagates operands' errors and adds those of a kernel's arithmetic. The
// rounding of the stored result is the same for all ops and is added at the end.

#include "differential/bound_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "differential/bound_parts.hpp"
#include "ir/expand.hpp"

namespace headroom::differential {

namespace {

/// Whether the results are rounded when they are stored: moved elements are unchanged, and casts and quantizers have
/// rounded already.
enum class Stored : std::uint8_t { kAsIs, kRounded };

struct Rule {
  Op op;
  Errors (*errors)(const Site& site);
  Stored stored = Stored::kRounded;
};

constexpr std::array kRules = {
    Rule{Op::kAdd, sum_errors},
    Rule{Op::kSub, sum_errors},
    Rule{Op::kMul, contraction_errors},
    Rule{Op::kAddScalar, scalar_errors},
    Rule{Op::kMulScalar, scalar_errors},
#define HR_UNARY(enumerator, ...) Rule{Op::enumerator, unary_errors},
#define HR_ANY(...)
#include "ir/elementwise.def"
    Rule{Op::kClamp, clamp_errors},
    Rule{Op::kDiv, div_errors},
    Rule{Op::kPow, pow_errors},
    Rule{Op::kMod, mod_errors},
    Rule{Op::kMin, extreme_errors, Stored::kAsIs},
    Rule{Op::kMax, extreme_errors, Stored::kAsIs},
    Rule{Op::kLess, comparison_errors, Stored::kAsIs},
    Rule{Op::kLessEqual, comparison_errors, Stored::kAsIs},
    Rule{Op::kEqual, comparison_errors, Stored::kAsIs},
    Rule{Op::kSelect, select_errors, Stored::kAsIs},
    Rule{Op::kCast, cast_errors, Stored::kAsIs},
    Rule{Op::kLinear, contraction_errors},
    Rule{Op::kMatmul, contraction_errors},
    Rule{Op::kQuantize, quantize_errors, Stored::kAsIs},
    Rule{Op::kSoftmax, softmax_errors},
    Rule{Op::kLayerNorm, layer_norm_errors},
    Rule{Op::kRmsNorm, rms_norm_errors},
    Rule{Op::kGroupNorm, group_norm_errors},
    Rule{Op::kRopeTable, rope_table_errors},
    Rule{Op::kRope, rope_errors},
    Rule{Op::kTimestepEmbedding, timestep_embedding_errors},
    Rule{Op::kReshape, moved_errors, Stored::kAsIs},
    Rule{Op::kTranspose, moved_errors, Stored::kAsIs},
    Rule{Op::kConcat, moved_errors, Stored::kAsIs},
    Rule{Op::kSlice, moved_errors, Stored::kAsIs},
    Rule{Op::kRow, moved_errors, Stored::kAsIs},
    Rule{Op::kConv2d, contraction_errors},
    Rule{Op::kConvTranspose2d, contraction_errors},
    Rule{Op::kConstant, no_errors, Stored::kAsIs},
    Rule{Op::kRandom, no_errors, Stored::kAsIs},
    Rule{Op::kGather, gathered_errors, Stored::kAsIs},
    Rule{Op::kScatterAdd, scattered_errors},
    Rule{Op::kPad, padded_errors, Stored::kAsIs},
    Rule{Op::kBroadcast, moved_errors, Stored::kAsIs},
    Rule{Op::kResize2d, resized_errors},
    Rule{Op::kMaxPool2d, moved_errors},
    Rule{Op::kAvgPool2d, reduced_sum_errors},
    Rule{Op::kMean, reduced_sum_errors},
    Rule{Op::kSum, reduced_sum_errors},
    Rule{Op::kAmax, reduced_extreme_errors, Stored::kAsIs},
    Rule{Op::kAmin, reduced_extreme_errors, Stored::kAsIs},
    Rule{Op::kArgmax, argmax_errors, Stored::kAsIs},
    Rule{Op::kTopk, topk_errors, Stored::kAsIs},
    Rule{Op::kCumsum, reduced_sum_errors},
    // Of a rank alone, as in random graphs.
    Rule{Op::kAllGather, moved_errors, Stored::kAsIs},
    Rule{Op::kReduceScatter, moved_errors, Stored::kAsIs},
    Rule{Op::kAllReduce, moved_errors, Stored::kAsIs},
    Rule{Op::kAllToAll, moved_errors, Stored::kAsIs},
    Rule{Op::kShift, moved_errors, Stored::kAsIs},
    Rule{Op::kUnpackBlocks, no_errors, Stored::kAsIs},  // every step of it is defined in f32
};

void add_rounding(const Site& site, const OracleTensor& result, Field& error) {
  const DType dtype = result.type.dtype;
  if (!is_float(dtype)) return;
  const bool is_real = site.covers == Covers::kReals && size_of(dtype) >= size_of(DType::kF32);
  const StorageUnit unit = is_real ? StorageUnit{kDoubleUnit, 0} : storage_unit(dtype);
  const double arithmetic = 2 * arithmetic_unit(site.covers);
  for (std::size_t i = 0; i < error.size(); ++i)
    if (std::isfinite(result.reals[i]) && (result.reals[i] != 0 || error[i] > 0))  // a 0 that is exact is stored so
      error[i] += (unit.relative + arithmetic) * (std::fabs(result.reals[i]) + error[i]) + unit.least;
}

}  // namespace

std::vector<std::vector<double>> bound_errors(const Site& site) {
  const auto* rule = std::ranges::find(kRules, site.op, &Rule::op);
  if (rule == kRules.end()) fail("{} has no row in tests/differential/bound_rules.cpp", name_of(site.op));
  Errors errors = rule->errors(site);
  HR_CHECK_EQ(errors.size(), site.results.size());
  for (std::size_t r = 0; r < errors.size(); ++r) {
    if (rule->stored == Stored::kRounded) add_rounding(site, site.results[r], errors[r]);
    const double largest = largest_of(site.results[r].type.dtype);
    // Infinities of masks are exact, and so are logarithms of sums over no key.
    const bool keeps_infinities =
        rule->stored == Stored::kAsIs || site.op == Op::kAdd || site.op == Op::kSub || site.op == Op::kLog;
    for (std::size_t i = 0; i < errors[r].size(); ++i) {
      const double value = value_at(site.results[r], i);
      if (keeps_infinities && std::isinf(value) && std::isfinite(errors[r][i]))
        errors[r][i] = 0;
      else if (!(std::fabs(value) + errors[r][i] <= largest))
        errors[r][i] = kInfinity;
    }
  }
  return errors;
}

bool has_bound(Op op) { return schema_of(op).fused || std::ranges::find(kRules, op, &Rule::op) != kRules.end(); }

}  // namespace headroom::differential
