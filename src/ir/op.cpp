#include "ir/op.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "ir/fused_body.hpp"

namespace headroom {
namespace {

const std::vector<OpSchema>& table() {
#define REQUIRED std::nullopt
#define ATTR(name, kind, fallback) AttributeSchema{name, AttributeKind::kind, fallback},
#define HR_OP(enumerator, name, min_inputs, max_inputs, results, fused, attributes) \
  OpSchema{Op::enumerator, name, min_inputs, max_inputs, results, fused, {attributes}},
  static const std::vector<OpSchema> schemas = {
#include "ir/ops.def"
  };
#undef HR_OP
#undef ATTR
#undef REQUIRED
  return schemas;
}

std::string_view name_of(AttributeKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"an integer", "a number", "a list of integers",
                                                      "text",       "a dtype",  "a list of numbers"};
  return kNames.at(static_cast<std::size_t>(kind));
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

Attributes::Attributes(Op op, std::vector<std::pair<std::string_view, Attribute>> given) {
  const OpSchema& schema = schema_of(op);
  for (auto it = given.begin(); it != given.end(); ++it) {
    if (std::ranges::find(schema.attributes, it->first, &AttributeSchema::name) == schema.attributes.end()) {
      fail("{} has no attribute called \"{}\"", schema.name, it->first);
    }
    const auto same_name = [&](const auto& other) { return other.first == it->first; };
    if (std::any_of(given.begin(), it, same_name)) fail("{} was given the attribute {} twice", schema.name, it->first);
  }
  for (const AttributeSchema& wanted : schema.attributes) {
    const auto found = std::ranges::find(given, wanted.name, [](const auto& pair) { return pair.first; });
    if (found == given.end()) {
      if (!wanted.fallback) fail("{} needs the attribute {}, which was not given", schema.name, wanted.name);
      values_.emplace_back(wanted.name, *wanted.fallback);
      continue;
    }
    if (found->second.index() != static_cast<std::size_t>(wanted.kind)) {
      fail("attribute {} of {} must be {}, but was given {}", wanted.name, schema.name, name_of(wanted.kind),
           name_of(static_cast<AttributeKind>(found->second.index())));
    }
    values_.emplace_back(wanted.name, std::move(found->second));
  }
  if (op == Op::kFused) fused_body_ = std::make_shared<FusedBody>();
}

Attributes Attributes::with(std::string_view name, Attribute value) const {
  HR_CHECK_EQ(at(name).index(), value.index());
  Attributes changed = *this;
  std::ranges::find(changed.values_, name, [](const auto& pair) { return pair.first; })->second = std::move(value);
  if (fused_body_ != nullptr) changed.fused_body_ = std::make_shared<FusedBody>();
  return changed;
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, [](const auto& pair) { return pair.first; });
  return found == values_.end() ? nullptr : &found->second;
}

const Attribute& Attributes::at(std::string_view name) const {
  if (const Attribute* found = find(name)) return *found;
  throw std::logic_error(fmt::format("the node has no attribute called \"{}\"", name));
}

}  // namespace headroom
