#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/results/json_members.hpp"

/// JSON objects of a struct, each described once, by a table of its members:
///
///     const Record<Interval> interval = Record<Interval>("interval", "A 95% interval.")
///                                           .member("low", &Interval::low, number())
///                                           .member("high", &Interval::high, number());
///
/// The table reads the struct from JSON, writes it, checks it, and gives the JSON Schema for other programs. Values
/// that are unknown are left out; nothing is null. A member that the table does not have is an error.
namespace headroom::records {

/// A JSON Schema (draft 2020-12) or a part of one; members keep their order.
using Schema = nlohmann::ordered_json;

/// How a value is read, written and described. `read` throws Error, naming the member and the place of its object.
template <typename M>
struct Field {
  std::function<M(const nlohmann::json& value, const JsonMember& member, const std::string& place)> read;
  std::function<nlohmann::json(const M&)> write;
  std::function<Schema(Schema& definitions)> schema;  ///< adds what it refers to, "#/$defs/name", to the definitions
};

[[nodiscard]] Field<std::string> text();  ///< not empty
[[nodiscard]] Field<std::string> any_text();
[[nodiscard]] Field<std::int64_t> whole(std::int64_t least = 0);
[[nodiscard]] Field<double> number(const NumberRange& range = kAnyNumber);
[[nodiscard]] Field<bool> flag();
/// One of several texts, each for a value.
template <typename M>
[[nodiscard]] Field<M> choice(std::vector<std::pair<std::string, M>> choices);
[[nodiscard]] Field<std::string> one_of(const std::vector<std::string_view>& choices);
/// An array of at least `fewest` values.
template <typename M>
[[nodiscard]] Field<std::vector<M>> list(Field<M> entry, std::size_t fewest = 0);
/// An object whose keys are names.
template <typename M>
[[nodiscard]] Field<std::map<std::string, M>> by_name(Field<M> entry);

/// A member as its schema shows it.
struct Property {
  std::string key;
  bool is_required;
  std::string description;
  std::function<Schema(Schema& definitions)> schema;
};

/// The table of a struct's members. Members are read in the order of the table.
template <typename T>
class Record {
 public:
  /// `name` is that of its schema, and of an entry of a list in errors: "series 3 of result 1".
  explicit Record(std::string name, std::string description = "")
      : name_(std::move(name)), description_(std::move(description)) {}

  /// A member that must be there.
  template <typename M>
  Record& member(std::string key, M T::*value, Field<M> field, std::string description = "") {
    add(std::move(key), true, std::move(description), field.schema, reader_of(value, field),
        [value, field](const T& record) { return std::optional(field.write(record.*value)); });
    return *this;
  }
  /// A member that may be absent.
  template <typename M>
  Record& member(std::string key, std::optional<M> T::*value, Field<M> field, std::string description = "") {
    add(std::move(key), false, std::move(description), field.schema, reader_of(value, field),
        [value, field](const T& record) {
          return record.*value ? std::optional(field.write(*(record.*value))) : std::nullopt;
        });
    return *this;
  }
  /// A member that is left out if it has the value of a T without members: an empty list, or a default.
  template <typename M>
  Record& member_unless_default(std::string key, M T::*value, Field<M> field, std::string description = "") {
    add(std::move(key), false, std::move(description), field.schema, reader_of(value, field),
        [value, field](const T& record) {
          return record.*value == T{}.*value ? std::nullopt : std::optional(field.write(record.*value));
        });
    return *this;
  }
  /// A member that is always this text.
  Record& constant(std::string key, const std::string& text) {
    const auto read = [text](const nlohmann::json& json, const JsonMember& member, const std::string& place, T&) {
      if (json != text) refuse_choice(json, member, place, std::vector{text});
    };
    add(
        std::move(key), true, "",
        [text](Schema&) {
          return Schema{{"const", text}};
        },
        read, [text](const T&) { return std::optional(nlohmann::json(text)); });
    return *this;
  }
  /// A member that follows from those before it. On reading, another value is an Error.
  Record& derived(std::string key, std::function<std::string(const T&)> derive, const Schema& schema,
                  std::string description = "") {
    const auto read = [derive](const nlohmann::json& json, const JsonMember& member, const std::string& place,
                               T& record) {
      const std::string derived = derive(record);
      if (json != derived)
        fail("the {} of {} is {}, but '{}' follows from its other members", member.key, place, json.dump(), derived);
    };
    add(
        std::move(key), true, std::move(description), [schema](Schema&) { return schema; }, read,
        [derive](const T& record) { return std::optional(nlohmann::json(derive(record))); });
    return *this;
  }
  /// Members of T that lie in an object of their own, under the name of that record.
  Record& group(const Record<T>& record) {
    add(
        record.name_, true, "", [record](Schema& definitions) { return record.schema(definitions); },
        [record](const nlohmann::json& json, const JsonMember& member, const std::string& place, T& out) {
          record.read_into(json, place_of(member, record.name_, place), out);
        },
        [record](const T& out) { return std::optional(record.write(out)); });
    return *this;
  }
  /// A part of T whose members lie among those of T: all of them, or none.
  template <typename Part>
  Record& part(std::optional<Part> T::*value, const Record<Part>& record) {
    for (const Property& property : record.properties_) {
      properties_.push_back(property);
      properties_.back().is_required = false;
      for (const Property& other : record.properties_)
        if (other.key != property.key) keywords_["dependentRequired"][property.key].push_back(other.key);
    }
    readers_.push_back([value, record](const nlohmann::json& object, const std::string& place, T& out) {
      const auto is_in = [&](const Property& property) { return object.contains(property.key); };
      if (!std::ranges::any_of(record.properties_, is_in)) return;
      Part part{};
      record.read_members(object, place, part);
      out.*value = std::move(part);
    });
    writers_.push_back([value, record](const T& out, nlohmann::json& object) {
      if (out.*value) record.write_members(*(out.*value), object);
    });
    return *this;
  }
  /// A further keyword of the schema: what tables cannot say.
  Record& keyword(const std::string& key, Schema value) {
    keywords_[key] = std::move(value);
    return *this;
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Throws Error, naming `place`, for what is no object, and for members that are missing, unknown or wrong.
  [[nodiscard]] T read(const nlohmann::json& json, const std::string& place) const {
    T record{};
    read_into(json, place, record);
    return record;
  }
  [[nodiscard]] nlohmann::json write(const T& record) const {
    nlohmann::json object = nlohmann::json::object();
    write_members(record, object);
    return object;
  }
  /// The schema of the object. What it refers to is added to the definitions.
  [[nodiscard]] Schema schema(Schema& definitions) const {
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

 private:
  template <typename>
  friend class Record;

  /// Reads a member; V is M, or an optional of it.
  template <typename V, typename M>
  static auto reader_of(V T::*value, const Field<M>& field) {
    return [value, field](const nlohmann::json& json, const JsonMember& member, const std::string& place, T& record) {
      record.*value = field.read(json, member, place);
    };
  }

  template <typename Read, typename Write>
  void add(std::string key, bool is_required, std::string description, std::function<Schema(Schema&)> schema, Read read,
           Write write) {
    readers_.push_back([key, is_required, read](const nlohmann::json& object, const std::string& place, T& record) {
      if (is_required || object.contains(key)) read(get(object, key, place), JsonMember{key}, place, record);
    });
    writers_.push_back([key, write](const T& record, nlohmann::json& object) {
      if (auto value = write(record)) object[key] = std::move(*value);
    });
    properties_.push_back({std::move(key), is_required, std::move(description), std::move(schema)});
  }

  void read_into(const nlohmann::json& object, const std::string& place, T& record) const {
    std::vector<std::string_view> keys;
    for (const Property& property : properties_) keys.push_back(property.key);
    check_members(object, keys, place);
    read_members(object, place, record);
  }
  void read_members(const nlohmann::json& object, const std::string& place, T& record) const {
    for (const auto& read : readers_) read(object, place, record);
  }
  void write_members(const T& record, nlohmann::json& object) const {
    for (const auto& write : writers_) write(record, object);
  }

  std::string name_, description_;
  std::vector<Property> properties_;
  std::vector<std::function<void(const nlohmann::json&, const std::string&, T&)>> readers_;
  std::vector<std::function<void(const T&, nlohmann::json&)>> writers_;
  Schema keywords_ = Schema::object();
};

/// An object. The record must outlive the field; its schema is a definition under its name.
template <typename T>
[[nodiscard]] Field<T> object(const Record<T>& record) {
  return {.read = [&record](
                      const nlohmann::json& value, const JsonMember& member,
                      const std::string& place) { return record.read(value, place_of(member, record.name(), place)); },
          .write = [&record](const T& value) { return record.write(value); },
          .schema =
              [&record](Schema& definitions) {
                if (!definitions.contains(record.name())) {
                  definitions[record.name()];  // its place, before those that it refers to
                  Schema schema = record.schema(definitions);
                  definitions[record.name()] = std::move(schema);
                }
                return Schema{{"$ref", "#/$defs/" + record.name()}};
              }};
}

template <typename M>
Field<M> choice(std::vector<std::pair<std::string, M>> choices) {
  std::vector<std::string> texts;
  for (const auto& [text, value] : choices) texts.push_back(text);
  return {.read =
              [choices, texts](const nlohmann::json& json, const JsonMember& member, const std::string& place) {
                const auto found =
                    std::ranges::find_if(choices, [&](const auto& entry) { return json == entry.first; });
                if (found == choices.end()) refuse_choice(json, member, place, texts);
                return found->second;
              },
          .write =
              [choices, texts](const M& value) {
                const auto found = std::ranges::find(choices, value, &std::pair<std::string, M>::second);
                if (found == choices.end()) fail("a result has none of {}", joined(texts));
                return nlohmann::json(found->first);
              },
          .schema =
              [texts](Schema&) {
                return Schema{{"enum", texts}};
              }};
}

template <typename M>
Field<std::vector<M>> list(Field<M> entry, std::size_t fewest) {
  return {.read =
              [entry, fewest](const nlohmann::json& json, const JsonMember& member, const std::string& place) {
                check_array(json, member, place, fewest);
                std::vector<M> values;
                values.reserve(json.size());
                for (const nlohmann::json& value : json)
                  values.push_back(entry.read(value, JsonMember{member.key, values.size()}, place));
                return values;
              },
          .write =
              [entry](const std::vector<M>& values) {
                nlohmann::json array = nlohmann::json::array();
                for (const M& value : values) array.push_back(entry.write(value));
                return array;
              },
          .schema =
              [entry, fewest](Schema& definitions) {
                Schema schema = {{"type", "array"}};
                if (fewest > 0) schema["minItems"] = fewest;
                schema["items"] = entry.schema(definitions);
                return schema;
              }};
}

template <typename M>
Field<std::map<std::string, M>> by_name(Field<M> entry) {
  return {.read =
              [entry](const nlohmann::json& json, const JsonMember& member, const std::string& place) {
                check_object(json, member, place);
                std::map<std::string, M> values;
                const std::string inside = place_of(member, member.key, place);
                for (const auto& [name, value] : json.items())
                  values[name] = entry.read(value, JsonMember{name}, inside);
                return values;
              },
          .write =
              [entry](const std::map<std::string, M>& values) {
                nlohmann::json object = nlohmann::json::object();
                for (const auto& [name, value] : values) object[name] = entry.write(value);
                return object;
              },
          .schema =
              [entry](Schema& definitions) {
                return Schema{{"type", "object"}, {"additionalProperties", entry.schema(definitions)}};
              }};
}

}  // namespace headroom::records
