#include <array>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Losses of training.

namespace headroom::ops {
namespace {

constexpr std::int64_t kMostClasses = std::int64_t{1} << 24;

std::vector<TensorType> cross_entropy_types(const TypeQuery& given) {
  const TensorType &x = given.in[0], &ids = given.in[1];
  given.require(is_float(x.dtype) && x.shape.rank() == 2 && x.shape[1] > 0 && x.shape[1] <= kMostClasses &&
                    is_index(ids) && ids.shape == Shape{x.shape[0]},
                "x[rows, classes] of a floating-point dtype, at most 2^24 classes, and ids[rows] of i32 or i64");
  return {{DType::kF32, ids.shape}, {DType::kF32, ids.shape}};
}

/// rows[n] as [n, 1]
ValueId column_of(Builder& builder, ValueId rows) { return builder.reshape(rows, {builder.shape(rows)[0], 1}); }

/// bool [rows, classes]: where the class is the row's id.
ValueId is_target(Builder& builder, ValueId ids, std::int64_t classes) {
  std::vector<double> places;
  for (std::int64_t i = 0; i < classes; ++i) places.push_back(static_cast<double>(i));
  return builder.equal(builder.constant(std::move(places), Shape{classes}),
                       builder.cast(column_of(builder, ids), DType::kF32));
}

std::vector<ValueId> expand_cross_entropy(Builder& builder, const Attributes& /*attributes*/,
                                          std::span<const ValueId> in) {
  const DType working = summing_dtype(builder.dtype(in[0]));
  const ValueId x = builder.cast(in[0], working);  // [rows, classes]
  const std::int64_t classes = builder.shape(x)[1];
  const ValueId most = builder.amax(x, {1});
  const ValueId total = builder.sum(builder.exp(builder.sub(x, column_of(builder, most))), {1});
  const ValueId logsumexp = builder.add(builder.log(total), most);
  const ValueId zero = builder.constant({0}, Shape{}, working);
  const ValueId chosen = builder.sum(builder.where(is_target(builder, in[1], classes), x, zero), {1});
  return {builder.cast(builder.sub(logsumexp, chosen), DType::kF32), builder.cast(logsumexp, DType::kF32)};
}

std::vector<ValueId> derive_cross_entropy(Builder& builder, const Derivation& node) {
  const DType dtype = builder.dtype(node.in[0]), working = summing_dtype(dtype);
  const ValueId x = builder.cast(node.in[0], working);
  const ValueId p = builder.exp(builder.sub(x, column_of(builder, builder.cast(node.out[1], working))));
  ValueId of_all = node.gradients[0];  // of the logarithm of the sum
  if (node.gradients[1] != kNoValue)
    of_all = of_all == kNoValue ? node.gradients[1] : builder.add(of_all, node.gradients[1]);
  ValueId gradient = builder.mul(p, column_of(builder, builder.cast(of_all, working)));
  if (node.gradients[0] != kNoValue) {
    const ValueId of_target = column_of(builder, builder.cast(node.gradients[0], working));
    const ValueId zero = builder.constant({0}, Shape{}, working);
    gradient =
        builder.sub(gradient, builder.where(is_target(builder, node.in[1], builder.shape(x)[1]), of_target, zero));
  }
  return {builder.cast(gradient, dtype), kNoValue};
}

void cross_entropy_cases(CaseList& list) {
  for (const DType ids : {DType::kI32, DType::kI64})
    list.add(fmt::format("5 rows of 17, {} ids", name_of(ids)), {list.data({5, 17}), {ids, {5}}});
}

constexpr std::array kLosses = {OpDefinition{.op = Op::kCrossEntropy,
                                             .infer = cross_entropy_types,
                                             .expand = expand_cross_entropy,
                                             .derive = derive_cross_entropy,
                                             .flops = for_each_input<5>,
                                             .samples = Samples::kBatched,
                                             .stays_f32 = false,
                                             .narrow_results = 0,
                                             .cases = cross_entropy_cases}};

}  // namespace

std::span<const OpDefinition> losses() { return kLosses; }

}  // namespace headroom::ops
