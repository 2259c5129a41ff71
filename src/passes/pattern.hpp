#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/rewrite.hpp"

namespace headroom {

/// What a fusion looks for, written like the expression that it is:
///
///     op(Op::kAdd, {any("residual"), op(Op::kMul, {any("gate"), any("x")})})
///
/// Operands of add and mul stand in either order. Nothing but the pattern may read what an op inside it makes, unless
/// it is `.shared()`.
class Pattern {
 public:
  /// Any value, by a name to refer to it; the same name twice means the same value.
  friend Pattern any(std::string name);
  /// A node of that op over these operands; by its name, if it has one, its attributes can be read.
  friend Pattern op(Op op, std::vector<Pattern> operands, std::string name);
  /// The same, which other nodes may read as well: its work is then done twice.
  [[nodiscard]] Pattern shared() const;

 private:
  friend class Matcher;
  std::optional<Op> op_;  // nothing: any value
  std::vector<Pattern> operands_;
  std::string name_;
  bool is_shared_ = false;
};
[[nodiscard]] Pattern any(std::string name);
[[nodiscard]] Pattern op(Op op, std::vector<Pattern> operands, std::string name = {});

/// Where a pattern was found.
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

/// The pattern with the shown node `root` as its last op, in the first order of operands that `fits`; nothing where
/// there is none.
[[nodiscard]] std::optional<Match> find(const Rewriter& r, const Node& root, const Pattern& pattern,
                                        const std::function<bool(const Match&)>& fits);

}  // namespace headroom
