#include "ir/op.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "ir/fused_body.hpp"

namespace headroom {
namespace {

static_assert(std::variant_size_v<Attribute> == static_cast<std::size_t>(AttributeKind::kEpilogue) + 1);
template <AttributeKind kKind>
using TypeOf = std::variant_alternative_t<static_cast<std::size_t>(kKind), Attribute>;
static_assert(std::is_same_v<TypeOf<AttributeKind::kInt>, std::int64_t> &&
              std::is_same_v<TypeOf<AttributeKind::kFloat>, double> &&
              std::is_same_v<TypeOf<AttributeKind::kInts>, Ints> &&
              std::is_same_v<TypeOf<AttributeKind::kText>, std::string> &&
              std::is_same_v<TypeOf<AttributeKind::kDType>, DType> &&
              std::is_same_v<TypeOf<AttributeKind::kFloats>, Floats> &&
              std::is_same_v<TypeOf<AttributeKind::kFlag>, bool> &&
              std::is_same_v<TypeOf<AttributeKind::kResizeMode>, ResizeMode> &&
              std::is_same_v<TypeOf<AttributeKind::kDistribution>, Distribution> &&
              std::is_same_v<TypeOf<AttributeKind::kEpilogue>, Epilogue>);

template <class T>
AttributeSchema attribute_schema(AttributeKey<T> key, std::type_identity_t<std::optional<T>> fallback) {
  return {key.name, kind_of<T>(), fallback ? std::optional<Attribute>(*std::move(fallback)) : std::nullopt};
}

const std::vector<OpSchema>& table() {
#define REQUIRED std::nullopt
#define ATTR(key, fallback) attribute_schema(attr::key, fallback),
#define HR_OP(enumerator, name, operands, results, fused, attributes) \
  OpSchema{Op::enumerator, name, operands_of(Op::enumerator), results, fused, {attributes}},
  static const std::vector<OpSchema> schemas = {
#include "ir/ops.def"
  };
#undef HR_OP
#undef ATTR
#undef REQUIRED
  return schemas;
}

std::string_view name_of(AttributeKind kind) {
  constexpr std::array<std::string_view, 10> kNames = {
      "an integer",        "a number", "a list of integers", "text",           "a dtype",
      "a list of numbers", "0 or 1",   "a resize mode",      "a distribution", "an epilogue"};
  return kNames.at(static_cast<std::size_t>(kind));
}

constexpr std::array kResizeModes = {ResizeMode::kNearest, ResizeMode::kBilinear};
constexpr std::array kDistributions = {Distribution::kNormal, Distribution::kUniform};

/// The value whose name is given.
template <class E, std::size_t N>
Attribute parse_name(const OpSchema& op, const AttributeSchema& schema, const std::array<E, N>& values,
                     const std::string& given) {
  std::vector<std::string_view> names;
  for (const E value : values) {
    if (name_of(value) == given) return value;
    names.push_back(name_of(value));
  }
  fail("{}: {} must be one of {}, but was given \"{}\"", op.name, schema.name, fmt::join(names, ", "), given);
}

/// The value as the type of the attribute: flags may be given as 0 or 1, enums by name and epilogues by their text.
Attribute converted(const OpSchema& op, const AttributeSchema& schema, Attribute given) {
  const auto* number = std::get_if<std::int64_t>(&given);
  if (schema.kind == AttributeKind::kFlag && number != nullptr) {
    if (*number == 0 || *number == 1) return *number == 1;
    fail("{}: {} must be 0 or 1, but was given {}", op.name, schema.name, *number);
  }
  if (const auto* name = std::get_if<std::string>(&given)) {
    if (schema.kind == AttributeKind::kResizeMode) return parse_name(op, schema, kResizeModes, *name);
    if (schema.kind == AttributeKind::kDistribution) return parse_name(op, schema, kDistributions, *name);
    if (schema.kind == AttributeKind::kEpilogue) return Epilogue::parse(*name);
  }
  return given;
}

}  // namespace

const OpSchema& schema_of(Op op) {
  const auto index = static_cast<std::size_t>(op);
  HR_CHECK_LT(index, table().size());
  return table()[index];
}

std::string_view name_of(Op op) { return schema_of(op).name; }

std::optional<Op> parse_op(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &OpSchema::name);
  return found == table().end() ? std::nullopt : std::optional(found->op);
}

std::span<const OpSchema> all_ops() { return table(); }

const AttributeSchema* OpSchema::find(std::string_view attribute) const {
  const auto found = std::ranges::find(attributes, attribute, &AttributeSchema::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::string_view name_of(Activation activation) {
  return activation == Activation::kNone ? "none" : name_of(op_of(activation));
}
std::string_view name_of(ResizeMode mode) { return mode == ResizeMode::kNearest ? "nearest" : "bilinear"; }
std::string_view name_of(Distribution distribution) {
  return distribution == Distribution::kNormal ? "normal" : "uniform";
}

Attributes::Attributes(Op op, NamedAttributes given) {
  const OpSchema& schema = schema_of(op);
  for (auto it = given.begin(); it != given.end(); ++it) {
    if (schema.find(it->name) == nullptr) fail("{} has no attribute called \"{}\"", schema.name, it->name);
    const auto same_name = [&](const NamedAttribute& other) { return other.name == it->name; };
    if (std::any_of(given.begin(), it, same_name)) fail("{} was given the attribute {} twice", schema.name, it->name);
  }
  for (const AttributeSchema& wanted : schema.attributes) {
    const auto found = std::ranges::find(given, wanted.name, &NamedAttribute::name);
    if (found == given.end()) {
      if (!wanted.fallback) fail("{} needs the attribute {}, which was not given", schema.name, wanted.name);
      values_.emplace_back(wanted.name, *wanted.fallback);
      continue;
    }
    Attribute value = converted(schema, wanted, std::move(found->value));
    if (value.index() != static_cast<std::size_t>(wanted.kind)) {
      fail("attribute {} of {} must be {}, but was given {}", wanted.name, schema.name, name_of(wanted.kind),
           name_of(static_cast<AttributeKind>(value.index())));
    }
    values_.emplace_back(wanted.name, std::move(value));
  }
  if (op == Op::kFused) fused_body_ = std::make_shared<FusedBody>();
}

Attributes Attributes::replaced(std::string_view name, Attribute value) const {
  Attributes changed = *this;
  const auto found = std::ranges::find(changed.values_, name, &NamedAttribute::name);
  if (found == changed.values_.end() || found->value.index() != value.index())
    throw std::logic_error(fmt::format("the node has no attribute \"{}\" of that type", name));
  found->value = std::move(value);
  if (fused_body_ != nullptr) changed.fused_body_ = std::make_shared<FusedBody>();
  return changed;
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, &NamedAttribute::name);
  return found == values_.end() ? nullptr : &found->value;
}

const Attribute& Attributes::at(std::string_view name) const {
  if (const Attribute* found = find(name)) return *found;
  throw std::logic_error(fmt::format("the node has no attribute called \"{}\"", name));
}

}  // namespace headroom
