#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/tensors/dtype.hpp"
#include "ir/epilogue.hpp"
#include "ir/op_code.hpp"
#include "ir/operands.hpp"

namespace headroom {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<double>;

/// The types of attributes, in the order of Attribute's alternatives.
enum class AttributeKind : std::uint8_t {
  kInt,
  kFloat,
  kInts,
  kText,
  kDType,
  kFloats,
  kFlag,
  kResizeMode,
  kDistribution,
  kEpilogue
};

/// The value of one attribute.
using Attribute =
    std::variant<std::int64_t, double, Ints, std::string, DType, Floats, bool, ResizeMode, Distribution, Epilogue>;

/// The kind of attributes of type T.
template <class T>
[[nodiscard]] AttributeKind kind_of() {
  return static_cast<AttributeKind>(Attribute(std::in_place_type<T>).index());
}

/// The name of an attribute, with the type of its value.
template <class T>
struct AttributeKey {
  std::string_view name;
};

/// The keys of all attributes: `node.attributes[attr::kAxis]`.
namespace attr {
#define HR_ATTRIBUTE(key, text, type) inline constexpr AttributeKey<type> key{text};
#include "ir/attributes.def"
#undef HR_ATTRIBUTE
}  // namespace attr

/// An attribute as it is given to a new node.
struct NamedAttribute {
  NamedAttribute(std::string_view of, Attribute given) : name(of), value(std::move(given)) {}
  template <class T>
  NamedAttribute(AttributeKey<T> key, std::type_identity_t<T> given) : name(key.name), value(std::move(given)) {}

  std::string_view name;
  Attribute value;
  friend bool operator==(const NamedAttribute&, const NamedAttribute&) = default;
};
using NamedAttributes = std::vector<NamedAttribute>;

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
  OperandList operands;
  int results;  ///< the minimum; attributes may add more
  bool fused;   ///< defined by plain ops, given by expand()
  std::vector<AttributeSchema> attributes;

  /// The attribute of that name; null if the op has none.
  [[nodiscard]] const AttributeSchema* find(std::string_view attribute) const;
  template <class T>
  [[nodiscard]] bool has(AttributeKey<T> key) const {
    const AttributeSchema* found = find(key.name);
    return found != nullptr && found->kind == kind_of<T>();
  }
};

[[nodiscard]] const OpSchema& schema_of(Op op);
[[nodiscard]] std::string_view name_of(Op op);
[[nodiscard]] std::optional<Op> parse_op(std::string_view name);
[[nodiscard]] std::span<const OpSchema> all_ops();

[[nodiscard]] std::string_view name_of(Activation activation);
[[nodiscard]] std::string_view name_of(ResizeMode mode);
[[nodiscard]] std::string_view name_of(Distribution distribution);

struct FusedBody;

/// The attributes of one node, in schema order, all of them present.
class Attributes {
 public:
  Attributes() = default;
  /// Fills in defaults. A flag may also be given as 0 or 1, an enum by its name and an epilogue by its text. Throws
  /// Error on a missing, unknown or wrongly typed attribute.
  Attributes(Op op, NamedAttributes given);

  /// The value of an attribute that the op has.
  template <class T>
  [[nodiscard]] const T& operator[](AttributeKey<T> key) const {
    return std::get<T>(at(key.name));
  }
  /// Whether the op has that attribute.
  template <class T>
  [[nodiscard]] bool has(AttributeKey<T> key) const {
    const Attribute* found = find(key.name);
    return found != nullptr && std::holds_alternative<T>(*found);
  }
  /// The same attributes with one of them replaced, which the op must have.
  template <class T>
  [[nodiscard]] Attributes with(AttributeKey<T> key, std::type_identity_t<T> value) const {
    return replaced(key.name, std::move(value));
  }

  /// How many operands the epilogue of a node has; they follow the node's own. 0 for an op without epilogues.
  [[nodiscard]] std::size_t epilogue_operands() const {
    return has(attr::kEpilogue) ? (*this)[attr::kEpilogue].operand_count() : 0;
  }

  [[nodiscard]] std::span<const NamedAttribute> all() const noexcept { return values_; }
  /// For a fused op, the holder of its parsed body (body_of() in ir/expand.hpp); null for other ops.
  [[nodiscard]] FusedBody* fused_body() const noexcept { return fused_body_.get(); }
  friend bool operator==(const Attributes& a, const Attributes& b) { return a.values_ == b.values_; }

 private:
  [[nodiscard]] const Attribute* find(std::string_view name) const;  // null if the op has none
  [[nodiscard]] const Attribute& at(std::string_view name) const;
  [[nodiscard]] Attributes replaced(std::string_view name, Attribute value) const;
  NamedAttributes values_;
  std::shared_ptr<FusedBody> fused_body_;  // shared by copies
};

}  // namespace headroom
