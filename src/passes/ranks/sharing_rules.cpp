#include "passes/ranks/sharing_rules.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "ir/op_definition.hpp"
#include "passes/ranks/token_sharing.hpp"

namespace headroom {
namespace {

using enum Sharing::Kind;

/// The rule of one node, of which an operand at least is shared.
class NodeRule {
 public:
  NodeRule(const Node& node, const std::vector<Sharing>& operands, const std::vector<TensorType>& in,
           const TensorType& out)
      : node_(node), operands_(operands), in_(in), out_(out.shape) {}

  SharedNode apply() const {
    const OpDefinition& known = definition_of(node_.op);
    if (known.kind == OpKind::kElementwise) return elementwise();
    switch (node_.op) {
      case Op::kReshape:
        return reshape();
      case Op::kTranspose:
        return transpose();
      case Op::kConcat:
        return concat();
      case Op::kSlice:
        return slice();
      case Op::kBroadcast:
        return broadcast();
      case Op::kRow:
        return row();
      case Op::kRope:
        return rope();
      case Op::kSum:
      case Op::kMean:
      case Op::kAmax:
        return reduction();
      case Op::kAttention:
        return attention();
      default:
        break;
    }
    const bool is_by_rows = known.samples == Samples::kBatched && known.inner_axes > 0 &&
                            known.keeps_samples == nullptr && node_.own_operands() == node_.inputs.size();
    if (is_by_rows) return along_rows(known.inner_axes);
    refuse("mixes tokens");
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    throw CannotShare(fmt::format("{} {}, which ranks cannot share", describe(node_), why));
  }

  /// The sharing of the only data operand, the first.
  [[nodiscard]] const Sharing& first() const {
    for (std::size_t i = 1; i < operands_.size(); ++i)
      if (operands_[i].is_shared()) refuse("has tokens for weights");
    return operands_[0];
  }

  [[nodiscard]] SharedNode alike(std::vector<Sharing> operands, Sharing results) const {
    return {.form = SharedNode::Form::kAlike, .operands = std::move(operands), .results = std::move(results)};
  }
  /// All operands but the first are whole.
  [[nodiscard]] SharedNode of_first(int axis, Ints stretches) const {
    std::vector<Sharing> operands(operands_.size());
    operands[0] = operands_[0];
    return alike(std::move(operands), {.kind = kShared, .axis = axis, .stretches = std::move(stretches)});
  }
  [[nodiscard]] SharedNode of_first(int axis) const { return of_first(axis, first().stretches); }

  /// Operands whose axes are aligned at the last one; `lacking` axes of a result precede those of the operand.
  [[nodiscard]] SharedNode elementwise() const {
    Sharing results{.kind = kUnknown};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].is_shared()) continue;
      Sharing aligned = operands_[i];
      aligned.axis += out_.rank() - in_[i].shape.rank();
      if (results.is_shared() && !(results == aligned)) refuse("joins tokens that are shared differently");
      results = std::move(aligned);
    }
    std::vector<Sharing> operands;
    for (const TensorType& type : in_) {
      const int axis = results.axis - (out_.rank() - type.shape.rank());
      const bool has_tokens = axis >= 0 && type.shape[axis] != 1;
      operands.push_back(has_tokens ? Sharing{.kind = kShared, .axis = axis, .stretches = results.stretches}
                                    : Sharing{});
    }
    return alike(std::move(operands), std::move(results));
  }

  [[nodiscard]] SharedNode along_rows(int inner_axes) const {
    const Sharing& x = first();
    if (x.axis >= in_[0].shape.rank() - inner_axes || out_.rank() != in_[0].shape.rank()) refuse("mixes tokens");
    return of_first(x.axis);
  }

  /// The first of `times` equal runs of stretches; nothing if they are not equal.
  [[nodiscard]] static std::optional<Ints> one_of(const Ints& stretches, std::int64_t times) {
    const auto length = std::ssize(stretches) / times;
    const Ints first(stretches.begin(), stretches.begin() + length);
    if (length * times != std::ssize(stretches)) return std::nullopt;
    for (std::int64_t i = 0; i < times; ++i)
      if (!std::equal(first.begin(), first.end(), stretches.begin() + i * length)) return std::nullopt;
    return first;
  }

  /// The axis of tokens may be kept, merged with axes before it, or split into rows with equal stretches.
  [[nodiscard]] SharedNode reshape() const {
    const Sharing& x = first();
    const auto behind = [](const Shape& shape, int axis) {
      return Shape(shape.dims().subspan(static_cast<std::size_t>(axis) + 1)).numel();
    };
    const std::int64_t extent = in_[0].shape[x.axis], after = behind(in_[0].shape, x.axis);
    for (int axis = out_.rank() - 1; axis >= 0; --axis) {
      if (behind(out_, axis) != after || out_[axis] == 1) continue;
      if (extent % out_[axis] == 0)
        if (std::optional<Ints> row = one_of(x.stretches, extent / out_[axis])) return of_first(axis, std::move(*row));
      if (out_[axis] % extent != 0) continue;
      Ints stretches;
      for (std::int64_t times = 0; times < out_[axis] / extent; ++times)
        stretches.insert(stretches.end(), x.stretches.begin(), x.stretches.end());
      return of_first(axis, std::move(stretches));
    }
    refuse("splits or merges the axis of tokens");
  }

  [[nodiscard]] SharedNode transpose() const {
    const Ints& perm = node_.attributes[attr::kPerm];
    return of_first(static_cast<int>(std::ranges::find(perm, first().axis) - perm.begin()));
  }

  [[nodiscard]] SharedNode concat() const {
    const auto axis = static_cast<int>(node_.attributes[attr::kAxis]);
    const Sharing& known = *std::ranges::find_if(operands_, &Sharing::is_shared);
    Sharing results = known;
    std::vector<Sharing> operands;
    if (known.axis == axis) results.stretches.clear();
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].is_shared() &&
          (operands_[i].axis != known.axis || (known.axis != axis && !(operands_[i] == known))))
        refuse("joins tokens that are shared differently");
      if (known.axis != axis) {
        operands.push_back(known);
        continue;
      }
      operands.push_back(operands_[i].is_shared()
                             ? operands_[i]
                             : Sharing{.kind = kShared, .axis = axis, .stretches = {in_[i].shape[axis]}});
      results.stretches.insert(results.stretches.end(), operands.back().stretches.begin(),
                               operands.back().stretches.end());
    }
    return alike(std::move(operands), std::move(results));
  }

  [[nodiscard]] SharedNode slice() const {
    const Sharing& x = first();
    if (node_.attributes[attr::kAxis] != x.axis) return of_first(x.axis);
    const std::int64_t start = node_.attributes[attr::kStart], end = start + node_.attributes[attr::kExtent];
    Ints kept;
    std::int64_t at = 0;
    for (const std::int64_t stretch : x.stretches) {
      if (at >= start && at + stretch <= end) kept.push_back(stretch);
      at += stretch;
    }
    if (std::accumulate(kept.begin(), kept.end(), std::int64_t{0}) != end - start) refuse("takes a part of the tokens");
    return of_first(x.axis, std::move(kept));
  }

  [[nodiscard]] SharedNode broadcast() const { return of_first(first().axis + out_.rank() - in_[0].shape.rank()); }

  /// The row of all tokens that an index picks, such as a step's.
  [[nodiscard]] SharedNode row() const {
    if (first().axis == 0) refuse("picks one of the tokens");
    return of_first(first().axis - 1);
  }

  /// The tables have a row for each token of the axis before the last.
  [[nodiscard]] SharedNode rope() const {
    const Sharing& x = operands_[0];
    if (!x.is_shared() || x.axis + 1 == in_[0].shape.rank()) refuse("mixes tokens");
    Sharing table;
    if (x.axis + 2 == in_[0].shape.rank()) table = {.kind = kShared, .axis = 0, .stretches = x.stretches};
    return alike({x, table, table}, x);
  }

  [[nodiscard]] SharedNode reduction() const {
    const Sharing& x = first();
    const Ints& axes = node_.attributes[attr::kAxes];
    if (std::ranges::find(axes, x.axis) != axes.end())
      return {.form = SharedNode::Form::kReduction, .operands = {x}, .results = {}};
    return of_first(x.axis - static_cast<int>(std::ranges::count_if(axes, [&](auto axis) { return axis < x.axis; })));
  }

  [[nodiscard]] SharedNode attention() const {
    constexpr int kTokens = 2;  // [batch, heads, tokens, head_dim]
    for (const Sharing& operand : operands_)
      if (operand.is_shared() && operand.axis != kTokens) refuse("has heads that ranks share");
    if (operands_.size() > 3) refuse("has a bias or a mask of the scores");
    if (node_.attributes[attr::kCausal]) refuse("is causal");
    if (node_.results.size() > 1) refuse("returns its logarithms of sums");
    if (!operands_[0].is_shared()) refuse("has queries that ranks do not share");
    if (operands_[1].is_shared() != operands_[2].is_shared()) refuse("has keys or values that ranks do not share");
    if (!operands_[1].is_shared()) return of_first(kTokens);
    if (in_[0].shape[1] != in_[1].shape[1]) refuse("has keys that serve several heads");
    return {.form = SharedNode::Form::kAttention, .operands = operands_, .results = operands_[0]};
  }

  const Node& node_;
  const std::vector<Sharing>& operands_;
  const std::vector<TensorType>& in_;
  const Shape& out_;
};

}  // namespace

SharedNode share_node(const Node& node, const std::vector<Sharing>& operands, const std::vector<TensorType>& in,
                      const TensorType& out) {
  if (std::ranges::any_of(operands, &Sharing::is_shared)) return NodeRule(node, operands, in, out).apply();
  const bool is_unknown =
      std::ranges::any_of(operands, [](const Sharing& operand) { return operand.kind == kUnknown; });
  return {.operands = operands, .results = {.kind = is_unknown ? kUnknown : kWhole}};
}

Attributes share_attributes(const Node& node, const SharedNode& shared, const Shape& result, int rank, int ranks) {
  const Sharing& results = shared.results;
  if (!results.is_shared()) return node.attributes;
  if (node.op == Op::kReshape || node.op == Op::kBroadcast) {
    Ints shape(result.dims().begin(), result.dims().end());
    return node.attributes.with(attr::kShape, std::move(shape));
  }
  if (node.op != Op::kSlice || node.attributes[attr::kAxis] != results.axis) return node.attributes;
  std::int64_t at = 0, start = 0;
  for (const std::int64_t stretch : shared.operands[0].stretches) {
    if (at >= node.attributes[attr::kStart]) break;
    at += stretch;
    start += share_of(stretch, rank, ranks);
  }
  return node.attributes.with(attr::kStart, start).with(attr::kExtent, result[results.axis]);
}

}  // namespace headroom
