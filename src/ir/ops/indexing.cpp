#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Rows of tables, by index.

namespace headroom::ops {
namespace {

/// The shape of one row of `table`.
Shape row_shape(const TensorType& table) { return Shape(table.shape.dims().subspan(1)); }

std::vector<TensorType> selected_row_types(const TypeQuery& given) {
  given.require(given.in[0].shape.rank() >= 1 && given.in[1] == TensorType{DType::kI32, Shape{}},
                "table[n, ...] and an i32 scalar");
  return {{given.in[0].dtype, row_shape(given.in[0])}};
}

std::vector<TensorType> gather_types(const TypeQuery& given) {
  const TensorType &table = given.in[0], &ids = given.in[1];
  given.require(table.shape.rank() >= 1 && is_index(ids), "table[n, ...] and ids[...] of i32 or i64");
  given.require(ids.shape.rank() + table.shape.rank() - 1 <= Shape::kMaxRank,
                fmt::format("at most {} axes of ids and of a row together", Shape::kMaxRank));
  Shape shape = ids.shape;
  for (int axis = 1; axis < table.shape.rank(); ++axis) shape.push_back(table.shape[axis]);
  return {{table.dtype, shape}};
}

std::vector<TensorType> scatter_add_types(const TypeQuery& given) {
  const TensorType &x = given.in[0], &ids = given.in[1], &updates = given.in[2];
  constexpr std::string_view kForm =
      "x[n, ...], ids[m] of i32 or i64 and updates[m, ...] of the dtype of x, a number's";
  given.require(x.dtype != DType::kBool && x.shape.rank() >= 1 && is_index(ids) && ids.shape.rank() == 1, kForm);
  Shape wanted = x.shape;
  wanted.set(0, ids.shape[0]);
  given.require(updates.dtype == x.dtype && updates.shape == wanted, kForm);
  return {x};
}

/// Checks a row index; throws if it is out of range.
std::size_t checked_row(Op op, std::int64_t id, std::int64_t rows) {
  if (id < 0 || id >= rows) fail("{}: the index must be in 0..{}, but is {}", name_of(op), rows - 1, id);
  return static_cast<std::size_t>(id);
}

/// A scalar id gives one row.
template <Op kOp>
void gather(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& table = *in[0];
  const auto size = static_cast<std::size_t>(row_shape(table.type).numel());
  for (std::size_t i = 0; i < in[1]->integers.size(); ++i) {
    const std::size_t from = checked_row(kOp, in[1]->integers[i], table.type.shape[0]) * size;
    const auto copy = [&](const auto& source, auto& target) {
      if (!target.empty())
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), size,
                    target.begin() + static_cast<std::ptrdiff_t>(i * size));
    };
    copy(table.reals, out[0].reals);
    copy(table.integers, out[0].integers);
  }
}

void scatter_add(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const auto size = static_cast<std::size_t>(row_shape(x.type).numel());
  out[0].reals = x.reals;
  out[0].integers = x.integers;
  for (std::size_t i = 0; i < in[1]->integers.size(); ++i) {
    const std::size_t to = checked_row(Op::kScatterAdd, in[1]->integers[i], x.type.shape[0]) * size;
    const auto add = [&](const auto& updates, auto& target) {
      if (target.empty()) return;
      for (std::size_t k = 0; k < size; ++k) target[to + k] += updates[i * size + k];
    };
    add(in[2]->reals, out[0].reals);
    add(in[2]->integers, out[0].integers);
  }
}

/// Rows that were read several times get the sum of their gradients, which is not rounded before it is complete.
std::vector<ValueId> derive_gather(Builder& builder, const Derivation& node) {
  const TensorType type = builder.graph().type(node.in[0]);  // [n, ...]
  std::vector<ValueId> gradients(2, kNoValue);
  if (!node.wanted[0]) return gradients;
  const DType working = summing_dtype(type.dtype);
  Shape rows = type.shape;  // [m, ...]
  rows.set(0, builder.shape(node.in[1]).numel());
  const ValueId ids = with_shape(builder, node.in[1], Shape{rows[0]});
  const ValueId made = with_shape(builder, builder.cast(node.gradient(), working), rows);
  const ValueId sums = builder.scatter_add(zeros(builder, {working, type.shape}), ids, made);
  gradients[0] = builder.cast(sums, type.dtype);
  return gradients;
}

std::vector<ValueId> derive_scatter_add(Builder& builder, const Derivation& node) {
  std::vector<ValueId> gradients(3, kNoValue);
  if (node.wanted[0]) gradients[0] = node.gradient();
  if (node.wanted[2]) gradients[2] = builder.gather(node.gradient(), node.in[1]);
  return gradients;
}

double scatter_add_flops(const Attributes& /*attributes*/, Types in, Types /*out*/) {
  return static_cast<double>(in[2].shape.numel());
}

constexpr std::array kIndexTypes = {DType::kI32, DType::kI64};

void table_row_cases(CaseList& list) { list.add("a row of 5x16", {list.data({3, 5, 16}), {DType::kI32, Shape{}}}); }

void gather_cases(CaseList& list) {
  for (const DType ids : kIndexTypes)
    list.add(fmt::format("4 rows, {} ids", name_of(ids)), {list.data({3, 5, 16}), {ids, {4}}});
}

void scatter_add_cases(CaseList& list) {
  for (const DType ids : kIndexTypes)
    list.add(fmt::format("7 rows to 5, {} ids", name_of(ids)), {list.data({5, 16}), {ids, {7}}, list.data({7, 16})});
}

constexpr std::array kIndexing = {
    OpDefinition{.op = Op::kRow,
                 .kind = OpKind::kCopy,
                 .infer = selected_row_types,
                 .evaluate = gather<Op::kRow>,
                 .derive = derive_gather,
                 .reads_part = true,
                 .cases = table_row_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kGather,
                 .kind = OpKind::kCopy,
                 .infer = gather_types,
                 .evaluate = gather<Op::kGather>,
                 .derive = derive_gather,
                 .reads_part = true,
                 .cases = gather_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kScatterAdd,
                 .infer = scatter_add_types,
                 .evaluate = scatter_add,
                 .derive = derive_scatter_add,
                 .flops = scatter_add_flops,
                 .cases = scatter_add_cases},
};

}  // namespace

std::span<const OpDefinition> indexing() { return kIndexing; }

}  // namespace headroom::ops
