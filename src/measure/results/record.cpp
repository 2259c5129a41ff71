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

Schema MemberTable::schema(Schema& definitions) const {
  Schema schema = Schema::object();
  if (!description_.empty()) schema["description"] = description_;
  schema["type"] = "object";
  schema["additionalProperties"] = false;
  for (const Property& property : properties_)
    if (property.is_required) schema["required"].push_back(property.key);
  for (const auto& [key, value] : keywords_.items()) schema[key] = value;
  for (const Property& property : properties_) {
    Schema& member = schema["properties"][property.key] = Schema::object();
    if (!property.description.empty()) member["description"] = property.description;
    const Schema described = property.schema(definitions);
    for (const auto& [key, value] : described.items())
      if (!member.contains(key)) member[key] = value;
  }
  return schema;
}

void MemberTable::add(std::string key, bool is_required, std::string description, std::function<Schema(Schema&)> schema,
                      Read read, Write write) {
  readers_.push_back(
      [key, is_required, read = std::move(read)](const nlohmann::json& object, const std::string& place, void* out) {
        if (is_required || object.contains(key)) read(get(object, key, place), JsonMember{key}, place, out);
      });
  writers_.push_back([key, write = std::move(write)](const void* from, nlohmann::json& object) {
    if (auto value = write(from)) object[key] = std::move(*value);
  });
  properties_.push_back({std::move(key), is_required, std::move(description), std::move(schema)});
}

void MemberTable::add_constant(std::string key, const std::string& text) {
  const auto read = [text](const nlohmann::json& json, const JsonMember& member, const std::string& place, void*) {
    if (json != text) refuse_choice(json, member, place, std::vector{text});
  };
  add(
      std::move(key), true, "",
      [text](Schema&) {
        return Schema{{"const", text}};
      },
      read, [text](const void*) { return std::optional(nlohmann::json(text)); });
}

void MemberTable::add_group(const MemberTable& table) {
  add(
      table.name_, true, "", [table](Schema& definitions) { return table.schema(definitions); },
      [table](const nlohmann::json& json, const JsonMember& member, const std::string& place, void* out) {
        table.read_into(json, place_of(member, table.name_, place), out);
      },
      [table](const void* from) { return std::optional(table.write_from(from)); });
}

void MemberTable::add_part(const MemberTable& table, std::function<void*(void*)> make,
                           std::function<const void*(const void*)> find) {
  for (const Property& property : table.properties_) {
    properties_.push_back(property);
    properties_.back().is_required = false;
    for (const Property& other : table.properties_)
      if (other.key != property.key) keywords_["dependentRequired"][property.key].push_back(other.key);
  }
  readers_.push_back(
      [table, make = std::move(make)](const nlohmann::json& object, const std::string& place, void* out) {
        const auto is_in = [&](const Property& property) { return object.contains(property.key); };
        if (std::ranges::any_of(table.properties_, is_in)) table.read_members(object, place, make(out));
      });
  writers_.push_back([table, find = std::move(find)](const void* from, nlohmann::json& object) {
    if (const void* part = find(from)) table.write_members(part, object);
  });
}

void MemberTable::read_into(const nlohmann::json& object, const std::string& place, void* out) const {
  std::vector<std::string_view> keys;
  for (const Property& property : properties_) keys.push_back(property.key);
  check_members(object, keys, place);
  read_members(object, place, out);
}

nlohmann::json MemberTable::write_from(const void* from) const {
  nlohmann::json object = nlohmann::json::object();
  write_members(from, object);
  return object;
}

void MemberTable::read_members(const nlohmann::json& object, const std::string& place, void* out) const {
  for (const auto& read : readers_) read(object, place, out);
}

void MemberTable::write_members(const void* from, nlohmann::json& object) const {
  for (const auto& write : writers_) write(from, object);
}

std::function<Schema(Schema&)> reference_to(const MemberTable& table) {
  return [&table](Schema& definitions) {
    if (!definitions.contains(table.name())) {
      definitions[table.name()];  // its place, before those that it refers to
      Schema schema = table.schema(definitions);
      definitions[table.name()] = std::move(schema);
    }
    return Schema{{"$ref", "#/$defs/" + table.name()}};
  };
}

}  // namespace headroom::records
