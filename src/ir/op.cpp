#include "ir/op.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace headroom {
namespace {

template <typename T>
T parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  HR_CHECK(error == std::errc{} && end == text.data() + text.size());
  return value;
}

/// The default that ops.def states as text, as a value of its kind. A broken table is a bug here, hence checks.
Attribute parse_fallback(AttributeKind kind, std::string_view text) {
  switch (kind) {
    case AttributeKind::kInt:
      return parse_number<std::int64_t>(text);
    case AttributeKind::kFloat:
      return parse_number<double>(text);
    case AttributeKind::kInts: {
      std::vector<std::int64_t> values;
      while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        values.push_back(parse_number<std::int64_t>(text.substr(0, comma)));
        text.remove_prefix(std::min(comma + 1, text.size()));
      }
      return values;
    }
    case AttributeKind::kText:
      return std::string(text);
    case AttributeKind::kDType: {
      const std::optional<DType> dtype = parse_dtype(text);
      HR_CHECK(dtype.has_value());
      return *dtype;
    }
  }
  HR_CHECK(false);
}

/// `fallback` is null for a required attribute.
AttributeSchema attribute(std::string_view name, AttributeKind kind, const char* fallback) {
  if (fallback == nullptr) return {name, kind, std::nullopt};
  return {name, kind, parse_fallback(kind, fallback)};
}

const std::vector<OpSchema>& table() {
#define REQUIRED nullptr
#define ATTR(name, kind, fallback) attribute(name, AttributeKind::kind, fallback),
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
  switch (kind) {
    case AttributeKind::kInt:
      return "an integer";
    case AttributeKind::kFloat:
      return "a number";
    case AttributeKind::kInts:
      return "a list of integers";
    case AttributeKind::kText:
      return "text";
    case AttributeKind::kDType:
      return "a dtype";
  }
  HR_CHECK(false);
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
}

Attributes Attributes::with(std::string_view name, Attribute value) const {
  HR_CHECK_EQ(at(name).index(), value.index());
  Attributes changed = *this;
  std::ranges::find(changed.values_, name, [](const auto& pair) { return pair.first; })->second = std::move(value);
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
