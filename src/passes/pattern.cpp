#include "passes/pattern.hpp"

#include <utility>

#include "ir/op_definition.hpp"

namespace headroom {
namespace {

bool is_commutative(Op op) { return definition_of(op).commutative; }

}  // namespace

Pattern any(std::string name) {
  Pattern pattern;
  pattern.name_ = std::move(name);
  return pattern;
}

Pattern op(Op op, std::vector<Pattern> operands, std::string name) {
  Pattern pattern;
  pattern.op_ = op;
  pattern.operands_ = std::move(operands);
  pattern.name_ = std::move(name);
  return pattern;
}

Pattern Pattern::shared() const {
  Pattern shared = *this;
  shared.is_shared_ = true;
  return shared;
}

/// Tries the orders of operands one after the other. `then` matches the rest of the pattern, given the bindings so
/// far; if it fails, the next order is tried.
class Matcher {
 public:
  using Then = std::function<bool(const Match&)>;

  explicit Matcher(const Rewriter& r) : r_(r) {}

  bool node(const Node& node, const Pattern& pattern, Match match, const Then& then) const {
    if (node.op != pattern.op_ || node.inputs.size() != pattern.operands_.size()) return false;
    if (!pattern.name_.empty()) match.nodes_[pattern.name_] = &node;
    if (operands(node.inputs, pattern.operands_, 0, match, then)) return true;
    return is_commutative(node.op) && operands({node.inputs[1], node.inputs[0]}, pattern.operands_, 0, match, then);
  }

 private:
  bool operands(const std::vector<ValueId>& values, const std::vector<Pattern>& patterns, std::size_t from,
                const Match& match, const Then& then) const {
    if (from == values.size()) return then(match);
    return operand(values[from], patterns[from], match,
                   [&](const Match& bound) { return operands(values, patterns, from + 1, bound, then); });
  }

  bool operand(ValueId value, const Pattern& pattern, Match match, const Then& then) const {
    if (pattern.op_) {
      const Node* made = pattern.is_shared_ ? r_.match(value, *pattern.op_) : r_.match_single_use(value, *pattern.op_);
      return made != nullptr && node(*made, pattern, std::move(match), then);
    }
    const auto [bound, is_new] = match.values_.try_emplace(pattern.name_, value);
    return (is_new || bound->second == value) && then(match);
  }

  const Rewriter& r_;
};

std::optional<Match> find(const Rewriter& r, const Node& root, const Pattern& pattern,
                          const std::function<bool(const Match&)>& fits) {
  std::optional<Match> found;
  static_cast<void>(Matcher(r).node(root, pattern, {}, [&](const Match& match) {
    if (fits(match)) found = match;
    return found.has_value();
  }));
  return found;
}

}  // namespace headroom
