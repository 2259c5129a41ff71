#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/rewrite.hpp"

namespace headroom {

/// The pattern that a fusion searches for, written like an expression:
///
///     op(Op::kAdd, {any("residual"), op(Op::kMul, {any("gate"), any("x")})})
///
/// Operands of add and mul match in either order. The result of an inner op must have no reader outside the pattern,
/// unless the op is `.shared()`.
class Pattern {
 public:
  /// Matches any value and binds it to `name`; the same name twice means the same value.
  friend Pattern any(std::string name);
  /// Matches a node of that op over these operands. If it has a name, Match gives the node, with its attributes.
  friend Pattern op(Op op, std::vector<Pattern> operands, std::string name);
  /// The same, but other nodes may read the result as well: its work is then duplicated.
  [[nodiscard]] Pattern shared() const;

 private:
  friend class Matcher;
  std::optional<Op> op_;  // unset: any value
  std::vector<Pattern> operands_;
  std::string name_;
  bool is_shared_ = false;
};
[[nodiscard]] Pattern any(std::string name);
[[nodiscard]] Pattern op(Op op, std::vector<Pattern> operands, std::string name = {});

/// One occurrence of a pattern.
class Match {
 public:
  /// The value called `name`.
  [[nodiscard]] ValueId operator[](std::string_view name) const { return values_.find(name)->second; }
  /// The node called `name`.
  [[nodiscard]] const Node& node(std::string_view name) const { return *nodes_.find(name)->second; }

 private:
  friend class Matcher;
  std::map<std::string, ValueId, std::less<>> values_;
  std::map<std::string, const Node*, std::less<>> nodes_;
};

/// The match of the pattern with the current node `root` as its last op, in the first order of operands for which
/// `fits` is true. Nothing if there is none.
[[nodiscard]] std::optional<Match> find(const Rewriter& r, const Node& root, const Pattern& pattern,
                                        const std::function<bool(const Match&)>& fits);

}  // namespace headroom
