#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

/// JSON as a sequence of events, for documents of which not everything is kept. The library's own parser with a callback
/// takes quadratic time: at the end of each object it looks through all that its parent holds.
namespace headroom {

/// Calls `handler` for each value, key, begin and end of the document, in time and memory linear in its length.
/// Throws Error as parse_json() does, but for repeated keys, which a handler finds. A handler returns true, and throws
/// where it refuses what it is given.
void read_json_events(std::string_view text, std::string_view context, nlohmann::json::json_sax_t& handler);

/// Makes a value of the events of a document or of one value in it.
class JsonBuilder final : public nlohmann::json::json_sax_t {
 public:
  /// `context` names the document in messages and must outlive the builder.
  explicit JsonBuilder(std::string_view context) : context_(context) {}

  /// Whether a whole value has come.
  [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }
  /// The values that have come, those inside of others included.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// The whole value. The builder is as new afterwards.
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
  std::vector<nlohmann::json*> open_;  // objects and arrays, the innermost last
  nlohmann::json* member_ = nullptr;   // of the innermost object, whose value comes next
  std::size_t count_ = 0;
  bool is_complete_ = false;
};

/// What an exception of the library says, without its prefix ("[json.exception...] parse error at line 1, column 2: ") and
/// not longer than a sentence: it quotes the input.
[[nodiscard]] std::string plain_json_reason(const std::string& what);

}  // namespace headroom
