#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

/// JSON as a sequence of events, for documents that are only partly kept. The library's own parser with a callback
/// takes quadratic time: at the end of each object it scans all members of the parent.
namespace headroom {

/// Calls `handler` for each value, key, begin and end of the document, in time and memory linear in its length.
/// Throws the Errors of parse_json(), except for repeated keys, which a handler must detect. A handler returns
/// true, and throws to refuse an event.
void read_json_events(std::string_view text, std::string_view context, nlohmann::json::json_sax_t& handler);

/// Builds a value from the events of a document, or of one value in it.
class JsonBuilder final : public nlohmann::json::json_sax_t {
 public:
  /// `context` names the document in messages and must outlive the builder.
  explicit JsonBuilder(std::string_view context) : context_(context) {}

  /// Whether a whole value has been read.
  [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }
  /// The number of values read so far, including nested ones.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Returns the whole value, and resets the builder.
  [[nodiscard]] nlohmann::json take();

  bool null() override;
  bool boolean(bool value) override;
  bool number_integer(number_integer_t value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t value, const string_t& text) override;
  bool string(string_t& value) override;
  bool binary(binary_t& value) override;
  bool start_object(std::size_t elements) override;
  bool key(string_t& value) override;
  bool end_object() override;
  bool start_array(std::size_t elements) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override;

 private:
  nlohmann::json& put(nlohmann::json value);
  void open(nlohmann::json container);
  bool close();

  std::string_view context_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;  // open objects and arrays, innermost last
  nlohmann::json* member_ = nullptr;   // of the innermost object, for the next value
  std::size_t count_ = 0;
  bool is_complete_ = false;
};

/// The message of a library exception without its prefix ("[json.exception...] parse error at line 1, column 2: "),
/// shortened, because it quotes the input.
[[nodiscard]] std::string plain_json_reason(const std::string& what);

}  // namespace headroom
