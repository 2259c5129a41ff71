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

/// The table of a struct's members whatever the struct is; a struct is a `void` here. Compiled once for all records.
class MemberTable {
 public:
  /// Reads a member of the struct from its value.
  using Read = std::function<void(const nlohmann::json& value, const JsonMember&, const std::string& place, void* out)>;
  /// The value of a member of the struct; none if it is left out.
  using Write = std::function<std::optional<nlohmann::json>(const void* from)>;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The schema of the object. What it refers to is added to the definitions.
  [[nodiscard]] Schema schema(Schema& definitions) const;

 protected:
  MemberTable(std::string name, std::string description)
      : name_(std::move(name)), description_(std::move(description)) {}

  void add(std::string key, bool is_required, std::string description, std::function<Schema(Schema&)> schema, Read read,
           Write write);
  void add_constant(std::string key, const std::string& text);
  void add_group(const MemberTable& table);
  /// Members of a part lie among those of the struct: all of them, or none. `make` makes the part and gives its place;
  /// `find` gives the part, null if there is none.
  void add_part(const MemberTable& table, std::function<void*(void* out)> make,
                std::function<const void*(const void* from)> find);
  void add_keyword(const std::string& key, Schema value) { keywords_[key] = std::move(value); }

  /// Throws Error, naming `place`, for what is no object, and for members that are missing, unknown or wrong.
  void read_into(const nlohmann::json& object, const std::string& place, void* out) const;
  [[nodiscard]] nlohmann::json write_from(const void* from) const;

 private:
  void read_members(const nlohmann::json& object, const std::string& place, void* out) const;
  void write_members(const void* from, nlohmann::json& object) const;

  std::string name_, description_;
  std::vector<Property> properties_;
  std::vector<std::function<void(const nlohmann::json&, const std::string&, void*)>> readers_;
  std::vector<std::function<void(const void*, nlohmann::json&)>> writers_;
  Schema keywords_ = Schema::object();
};

/// The table of a struct's members. Members are read in the order of the table.
template <typename T>
class Record : public MemberTable {
 public:
  /// `name` is that of its schema, and of an entry of a list in errors: "series 3 of result 1".
  explicit Record(std::string name, std::string description = "")
      : MemberTable(std::move(name), std::move(description)) {}

  /// A member that must be there.
  template <typename M>
  Record& member(std::string key, M T::*value, const Field<M>& field, std::string description = "") {
    add(std::move(key), true, std::move(description), field.schema, reader_of(value, field),
        [value, write = field.write](const void* from) { return std::optional(write(typed(from).*value)); });
    return *this;
  }
  /// A member that may be absent.
  template <typename M>
  Record& member(std::string key, std::optional<M> T::*value, const Field<M>& field, std::string description = "") {
    add(std::move(key), false, std::move(description), field.schema, reader_of(value, field),
        [value, write = field.write](const void* from) {
          const std::optional<M>& member = typed(from).*value;
          return member ? std::optional(write(*member)) : std::nullopt;
        });
    return *this;
  }
  /// A member that is left out if it has the value of a T without members: an empty list, or a default.
  template <typename M>
  Record& member_unless_default(std::string key, M T::*value, const Field<M>& field, std::string description = "") {
    add(std::move(key), false, std::move(description), field.schema, reader_of(value, field),
        [value, write = field.write](const void* from) {
          const M& member = typed(from).*value;
          return member == T{}.*value ? std::nullopt : std::optional(write(member));
        });
    return *this;
  }
  /// A member that is always this text.
  Record& constant(std::string key, const std::string& text) {
    add_constant(std::move(key), text);
    return *this;
  }
  /// A member that follows from those before it. On reading, another value is an Error.
  Record& derived(std::string key, std::function<std::string(const T&)> derive, const Schema& schema,
                  std::string description = "") {
    const auto read = [derive](const nlohmann::json& json, const JsonMember& member, const std::string& place,
                               void* out) {
      const std::string derived = derive(typed(out));
      if (json != derived)
        fail("the {} of {} is {}, but '{}' follows from its other members", member.key, place, json.dump(), derived);
    };
    add(
        std::move(key), true, std::move(description), [schema](Schema&) { return schema; }, read,
        [derive](const void* from) { return std::optional(nlohmann::json(derive(typed(from)))); });
    return *this;
  }
  /// Members of T that lie in an object of their own, under the name of that record.
  Record& group(const Record<T>& record) {
    add_group(record);
    return *this;
  }
  /// A part of T whose members lie among those of T: all of them, or none.
  template <typename Part>
  Record& part(std::optional<Part> T::*value, const Record<Part>& record) {
    add_part(
        record, [value](void* out) -> void* { return &(static_cast<T*>(out)->*value).emplace(); },
        [value](const void* from) -> const void* {
          const std::optional<Part>& part = typed(from).*value;
          return part ? &*part : nullptr;
        });
    return *this;
  }
  /// A further keyword of the schema: what tables cannot say.
  Record& keyword(const std::string& key, Schema value) {
    add_keyword(key, std::move(value));
    return *this;
  }

  /// Throws Error, naming `place`, for what is no object, and for members that are missing, unknown or wrong.
  [[nodiscard]] T read(const nlohmann::json& json, const std::string& place) const {
    T record{};
    read_into(json, place, &record);
    return record;
  }
  [[nodiscard]] nlohmann::json write(const T& record) const { return write_from(&record); }

 private:
  static const T& typed(const void* record) { return *static_cast<const T*>(record); }

  /// Reads a member; V is M, or an optional of it.
  template <typename V, typename M>
  static Read reader_of(V T::*value, const Field<M>& field) {
    return [value, read = field.read](const nlohmann::json& json, const JsonMember& member, const std::string& place,
                                      void* out) { static_cast<T*>(out)->*value = read(json, member, place); };
  }
};

/// A field that refers to the definition of a table, which is added. The table must outlive it.
[[nodiscard]] std::function<Schema(Schema& definitions)> reference_to(const MemberTable& table);

/// An object. The record must outlive the field; its schema is a definition under its name.
template <typename T>
[[nodiscard]] Field<T> object(const Record<T>& record) {
  return {.read = [&record](
                      const nlohmann::json& value, const JsonMember& member,
                      const std::string& place) { return record.read(value, place_of(member, record.name(), place)); },
          .write = [&record](const T& value) { return record.write(value); },
          .schema = reference_to(record)};
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
