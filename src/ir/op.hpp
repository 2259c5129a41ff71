#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/tensors/dtype.hpp"
#include "ir/op_code.hpp"

namespace headroom {

enum class AttributeKind : std::uint8_t { kInt, kFloat, kInts, kText, kDType, kFloats };

/// The value of one attribute; the alternative matches the AttributeKind of its schema, in the same order.
using Attribute =
    std::variant<std::int64_t, double, std::vector<std::int64_t>, std::string, DType, std::vector<double>>;

/// The schema of one attribute in ops.def. `fallback` is set unless the attribute is required.
struct AttributeSchema {
  std::string_view name;
  AttributeKind kind;
  std::optional<Attribute> fallback;
};

/// The schema of one op in ops.def.
struct OpSchema {
  Op op;
  std::string_view name;
  int min_inputs;
  int max_inputs;
  int results;  ///< the minimum; attributes may add more
  bool fused;   ///< defined by plain ops, given by expand()
  std::vector<AttributeSchema> attributes;
};

[[nodiscard]] const OpSchema& schema_of(Op op);
[[nodiscard]] std::string_view name_of(Op op);
[[nodiscard]] std::optional<Op> parse_op(std::string_view name);
[[nodiscard]] std::span<const OpSchema> all_ops();

struct FusedBody;

/// The attributes of one node, in schema order, all of them present.
class Attributes {
 public:
  Attributes() = default;
  /// Fills in defaults; throws Error on a missing, unknown or wrongly typed attribute.
  Attributes(Op op, std::vector<std::pair<std::string_view, Attribute>> given);

  [[nodiscard]] std::int64_t get_int(std::string_view name) const { return std::get<std::int64_t>(at(name)); }
  [[nodiscard]] double get_float(std::string_view name) const { return std::get<double>(at(name)); }
  [[nodiscard]] const std::vector<std::int64_t>& get_ints(std::string_view name) const {
    return std::get<std::vector<std::int64_t>>(at(name));
  }
  [[nodiscard]] const std::vector<double>& get_floats(std::string_view name) const {
    return std::get<std::vector<double>>(at(name));
  }
  [[nodiscard]] const std::string& get_text(std::string_view name) const { return std::get<std::string>(at(name)); }
  [[nodiscard]] DType get_dtype(std::string_view name) const { return std::get<DType>(at(name)); }

  /// Whether the op has an attribute of that name.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The same attributes with one replaced. It must exist and have the type of `value`.
  [[nodiscard]] Attributes with(std::string_view name, Attribute value) const;

  [[nodiscard]] std::span<const std::pair<std::string_view, Attribute>> all() const noexcept { return values_; }
  /// For a fused op, the holder of its parsed body (body_of() in ir/expand.hpp); null for other ops.
  [[nodiscard]] FusedBody* fused_body() const noexcept { return fused_body_.get(); }
  friend bool operator==(const Attributes& a, const Attributes& b) { return a.values_ == b.values_; }

 private:
  [[nodiscard]] const Attribute* find(std::string_view name) const;  // null if the op has none
  [[nodiscard]] const Attribute& at(std::string_view name) const;
  std::vector<std::pair<std::string_view, Attribute>> values_;
  std::shared_ptr<FusedBody> fused_body_;  // shared by copies
};

}  // namespace headroom
