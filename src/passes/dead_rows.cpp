// dead-rows: y = slice(linear(x, w), rows)  ->  y = linear(slice(x, rows), w)
//
// Avoids computing rows that nothing reads. If a slice is the only reader of a chain of ops, every op along the
// sliced axis is computed only for that part of its operands: elementwise ops, norms, matmuls of rows, queries of an
// attention. In a transformer this concerns the last block, of which only the tokens of the generated image are read.
// Tokens of the text, and of an image that is edited, are needed there as keys and values only. A chain without a
// matmul is left unchanged, because a slice of an existing value is a view, which costs nothing.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/op_definition.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// A range of entries of an axis.
struct Rows {
  std::int64_t axis = 0;
  std::int64_t start = 0;
  std::int64_t size = 0;
};

/// An operand for computing some rows: the part of `value` that is needed, or all of it.
struct Need {
  ValueId value;
  std::optional<Rows> rows = {};
};

/// The computation of some rows of a node's result: the operands, and the attributes for them.
struct Part {
  std::vector<Need> operands;
  Attributes attributes;
  bool is_operand = false;  ///< the rows that it needs of its operand
};

Rows along(Rows rows, std::int64_t axis) {
  rows.axis = axis;
  return rows;
}

std::int64_t extent(const Shape& shape, std::int64_t axis) { return shape[static_cast<int>(axis)]; }

Rows rows_of(const Node& slice) {
  return {.axis = slice.attributes[attr::kAxis],
          .start = slice.attributes[attr::kStart],
          .size = slice.attributes[attr::kExtent]};
}

/// The axis of a reshape's operand that corresponds to this axis of its result: of the same extent, with as many
/// elements after it.
std::optional<std::int64_t> axis_before(const Shape& from, const Shape& to, std::int64_t axis) {
  std::int64_t behind = 1, behind_from = 1;
  for (std::int64_t i = to.rank() - 1; i > axis; --i) behind *= extent(to, i);
  for (std::int64_t i = from.rank() - 1; i >= 0; behind_from *= extent(from, i--))
    if (behind_from == behind && extent(from, i) == extent(to, axis)) return i;
  return std::nullopt;
}

bool only_first_is_batched(Op op) {
  const OperandList& operands = schema_of(op).operands;
  return operands.at(0).batched && std::ranges::count(operands, true, &OperandSchema::batched) == 1;
}

class RowTrimmer {
 public:
  explicit RowTrimmer(Rewriter& rewriter) : r_(rewriter) {}

  /// Whether a matmul would compute fewer rows.
  [[nodiscard]] bool pays(ValueId value, const Rows& rows) const {
    const Node* const node = producer(value);
    const std::optional<Part> part = node != nullptr ? part_of(*node, rows) : std::nullopt;
    if (!part) return false;
    return is_contraction(node->op) || std::ranges::any_of(part->operands, [&](const Need& need) {
             return need.rows && pays(need.value, *need.rows);
           });
  }

  /// Computes only these rows of the value, as far as possible.
  ValueId take(ValueId value, const Rows& rows, const std::string& path) {
    if (rows.size == extent(r_.shape(value), rows.axis)) return value;
    const Node* const node = pays(value, rows) ? producer(value) : nullptr;
    if (node == nullptr)
      return r_.emit(Op::kSlice, {value},
                     {{attr::kAxis, rows.axis}, {attr::kStart, rows.start}, {attr::kExtent, rows.size}}, path);
    const Part part = *part_of(*node, rows);
    std::vector<ValueId> operands;
    for (const Need& need : part.operands)
      operands.push_back(need.rows ? take(need.value, *need.rows, node->path) : need.value);
    if (part.is_operand) return operands[0];
    return r_.emit_like(*node, std::move(operands), part.attributes);
  }

 private:
  /// The node that makes the value, if only these rows of it are read.
  [[nodiscard]] const Node* producer(ValueId value) const {
    const Node* const node = r_.single_use_producer(value);
    return node != nullptr && node->results.size() == 1 ? node : nullptr;
  }

  [[nodiscard]] std::optional<Part> part_of(const Node& node, const Rows& rows) const {
    const OpDefinition& known = definition_of(node.op);
    const Shape& to = r_.shape(node.results[0]);
    Part part{.operands = {}, .attributes = node.attributes};
    for (const ValueId input : node.inputs) part.operands.push_back({.value = input});
    const auto first = [&](std::int64_t axis) { part.operands[0].rows = along(rows, axis); };

    if (known.kind == OpKind::kElementwise) {
      for (Need& need : part.operands) need.rows = broadcast_rows(r_.shape(need.value), to, rows);
    } else if (node.op == Op::kSlice) {
      const Rows inner = rows_of(node);
      if (inner.axis != rows.axis) {
        first(rows.axis);
        return part;
      }
      part.operands[0].rows = Rows{.axis = rows.axis, .start = inner.start + rows.start, .size = rows.size};
      part.is_operand = true;
    } else if (node.op == Op::kConcat) {
      concat_part(part, node.attributes[attr::kAxis], rows);
    } else if (node.op == Op::kTranspose) {
      first(node.attributes[attr::kPerm][static_cast<std::size_t>(rows.axis)]);
    } else if (node.op == Op::kReshape) {
      const std::optional<std::int64_t> axis = axis_before(r_.shape(node.inputs[0]), to, rows.axis);
      if (!axis) return std::nullopt;
      Ints shape(to.dims().begin(), to.dims().end());
      shape[static_cast<std::size_t>(rows.axis)] = rows.size;
      part.attributes = node.attributes.with(attr::kShape, std::move(shape));
      first(*axis);
    } else if (node.op == Op::kMatmul || node.op == Op::kRope) {
      if (rows.axis != to.rank() - 2) return std::nullopt;
      first(node.op == Op::kMatmul && node.attributes[attr::kTransposeA] ? rows.axis + 1 : rows.axis);
      take_rows_of_epilogue(part, node, rows);
      // The tables of a rotation have one row per position.
      if (node.op == Op::kRope)
        for (const std::size_t table : {1, 2}) part.operands[table].rows = along(rows, 0);
    } else if (known.samples == Samples::kBatched && only_first_is_batched(node.op) && known.inner_axes > 0 &&
               known.keeps_samples == nullptr) {
      const bool lies_outside = rows.axis < to.rank() - known.inner_axes;
      if (!lies_outside || r_.shape(node.inputs[0]).rank() != to.rank()) return std::nullopt;
      first(rows.axis);
      take_rows_of_epilogue(part, node, rows);
    } else {
      return std::nullopt;
    }
    return part;
  }

  /// Operands of an epilogue have the result's rows, unless they have one element per column.
  void take_rows_of_epilogue(Part& part, const Node& node, const Rows& rows) const {
    for (std::size_t k = node.own_operands(); k < node.inputs.size(); ++k)
      if (is_batched_operand(r_.graph(), node, k)) part.operands[k].rows = rows;
  }

  /// The rows of an operand from which these rows of `to` are computed; nothing if one row serves all.
  static std::optional<Rows> broadcast_rows(const Shape& from, const Shape& to, const Rows& rows) {
    const std::int64_t axis = rows.axis - (to.rank() - from.rank());
    return axis < 0 || extent(from, axis) == 1 ? std::nullopt : std::optional(along(rows, axis));
  }

  /// Keeps only the concatenated parts that overlap the rows to read.
  void concat_part(Part& part, std::int64_t axis, const Rows& rows) const {
    if (axis != rows.axis) {
      for (Need& need : part.operands) need.rows = rows;
      return;
    }
    std::vector<Need> kept;
    std::int64_t begin = 0;
    for (const Need& need : part.operands) {
      const std::int64_t size = extent(r_.shape(need.value), axis);
      const std::int64_t from = std::max(rows.start, begin), to = std::min(rows.start + rows.size, begin + size);
      if (from < to) kept.push_back({need.value, Rows{.axis = axis, .start = from - begin, .size = to - from}});
      begin += size;
    }
    part.operands = std::move(kept);
    part.is_operand = part.operands.size() == 1;
  }

  Rewriter& r_;
};

bool trim(Rewriter& r, const Node& slice) {
  if (slice.op != Op::kSlice || r.is_weight(slice.results[0])) return false;
  RowTrimmer trimmer(r);
  const Rows rows = rows_of(slice);
  if (!trimmer.pays(slice.inputs[0], rows)) return false;
  r.replace(slice.results[0], trimmer.take(slice.inputs[0], rows, slice.path));
  return true;
}

}  // namespace

PassOutcome dead_rows(Graph& graph, const Target&) {
  int rewrites = 0;
  // A removed read may have been the only one that kept other rows alive.
  for (int more = 1; more > 0; rewrites += more) more = rewrite_each(graph, trim);
  return {.rewrites = rewrites};
}

}  // namespace headroom
