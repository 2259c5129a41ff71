#include "measure/results/record.hpp"

namespace headroom::records {
namespace {

/// A reference to a definition, which is added.
std::function<Schema(Schema&)> refer(std::string name, Schema definition) {
  return [name = std::move(name), definition = std::move(definition)](Schema& definitions) {
    if (!definitions.contains(name)) definitions[name] = definition;
    return Schema{{"$ref", "#/$defs/" + name}};
  };
}

nlohmann::json as_it_is(const auto& value) { return value; }

}  // namespace

Field<std::string> text() {
  return {.read = as_text,
          .write = as_it_is<std::string>,
          .schema = refer("text", {{"description", "Without control characters and those for the direction of text."},
                                   {"type", "string"},
                                   {"pattern", "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069]+$"}})};
}

Field<std::string> any_text() {
  return {.read = as_any_text, .write = as_it_is<std::string>, .schema = [](Schema&) {
            return Schema{{"type", "string"}};
          }};
}

Field<std::int64_t> whole(std::int64_t least) {
  return {.read = [least](const nlohmann::json& value, const JsonMember& member,
                          const std::string& place) { return as_whole(value, member, place, least); },
          .write = as_it_is<std::int64_t>,
          .schema =
              [least](Schema&) {
                return Schema{{"type", "integer"}, {"minimum", least}};
              }};
}

Field<double> number(const NumberRange& range) {
  return {.read = [range](const nlohmann::json& value, const JsonMember& member,
                          const std::string& place) { return as_number(value, member, place, range); },
          .write = as_it_is<double>,
          .schema =
              [range](Schema&) {
                Schema schema = {{"type", "number"}};
                if (range.low != kAnyNumber.low) schema["minimum"] = range.low;
                if (range.high != kAnyNumber.high) schema["maximum"] = range.high;
                return schema;
              }};
}

Field<bool> flag() {
  return {.read = as_flag, .write = as_it_is<bool>, .schema = [](Schema&) { return Schema{{"type", "boolean"}}; }};
}

Field<std::string> one_of(const std::vector<std::string_view>& choices) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view text : choices) pairs.emplace_back(text, text);
  return choice(std::move(pairs));
}

}  // namespace headroom::records
