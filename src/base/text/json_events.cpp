#include "base/text/json_events.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

using nlohmann::json;

struct Place {
  std::size_t line = 1;
  std::size_t column = 1;
};

/// Line and column of the byte at `offset`.
Place place_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t newline = before.rfind('\n');
  return {.line = 1 + static_cast<std::size_t>(std::ranges::count(before, '\n')),
          .column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline};
}

/// Passes events on; rejects text that is not JSON or is nested too deeply.
class Checked final : public json::json_sax_t {
 public:
  Checked(std::string_view text, std::string_view context, json::json_sax_t& handler)
      : text_(text), context_(context), handler_(handler) {}

  bool null() override { return handler_.null(); }
  bool boolean(bool value) override { return handler_.boolean(value); }
  bool number_integer(number_integer_t value) override { return handler_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return handler_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) override { return handler_.number_float(value, text); }
  bool string(string_t& value) override { return handler_.string(value); }
  bool binary(binary_t& value) override { return handler_.binary(value); }
  bool key(string_t& value) override { return handler_.key(value); }
  bool start_object(std::size_t elements) override {
    enter();
    return handler_.start_object(elements);
  }
  bool start_array(std::size_t elements) override {
    enter();
    return handler_.start_array(elements);
  }
  bool end_object() override {
    --depth_;
    return handler_.end_object();
  }
  bool end_array() override {
    --depth_;
    return handler_.end_array();
  }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const json::parse_error*>(&error) == nullptr)  // a number out of range
      fail("{} is not valid JSON: {}", context_, plain_json_reason(error.what()));
    const Place place = place_of(text_, position > 0 ? position - 1 : 0);
    fail("{} is not valid JSON at line {}, column {}: {}", context_, place.line, place.column,
         plain_json_reason(error.what()));
  }

 private:
  void enter() {
    if (depth_ >= kMaxJsonDepth) fail("{} is nested deeper than {} levels", context_, kMaxJsonDepth);
    ++depth_;
  }

  std::string_view text_;
  std::string_view context_;
  json::json_sax_t& handler_;
  int depth_ = 0;
};

}  // namespace

std::string plain_json_reason(const std::string& what) {
  std::size_t begin = what.find("] ");
  begin = begin == std::string::npos ? 0 : begin + 2;
  if (what.compare(begin, 11, "parse error") == 0) {
    const std::size_t colon = what.find(": ", begin);
    if (colon != std::string::npos) begin = colon + 2;
  }
  constexpr std::size_t kMostBytes = 160;
  std::string reason = what.substr(begin);
  for (char& c : reason)
    if (c < ' ' || c > '~') c = '?';
  return shortened(reason, kMostBytes);
}

void read_json_events(std::string_view text, std::string_view context, json::json_sax_t& handler) {
  // The library takes a NUL byte for the end of the text and would ignore the rest.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    const Place place = place_of(text, nul);
    fail("{} is not valid JSON at line {}, column {}: it holds a NUL byte", context, place.line, place.column);
  }
  Checked checked(text, context, handler);
  HR_CHECK(json::sax_parse(text.begin(), text.end(), &checked));
}

json JsonBuilder::take() {
  HR_CHECK(is_complete_);
  is_complete_ = false;
  count_ = 0;
  return std::exchange(root_, nullptr);
}

json& JsonBuilder::put(json value) {
  ++count_;
  if (open_.empty()) {
    root_ = std::move(value);
    is_complete_ = true;
    return root_;
  }
  if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
  *member_ = std::move(value);
  return *member_;
}

void JsonBuilder::open(json container) {
  json& place = put(std::move(container));
  is_complete_ = false;
  open_.push_back(&place);
}

bool JsonBuilder::close() {
  open_.pop_back();
  is_complete_ = open_.empty();
  return true;
}

bool JsonBuilder::null() {
  put(nullptr);
  return true;
}
bool JsonBuilder::boolean(bool value) {
  put(value);
  return true;
}
bool JsonBuilder::number_integer(number_integer_t value) {
  put(value);
  return true;
}
bool JsonBuilder::number_unsigned(number_unsigned_t value) {
  put(value);
  return true;
}
bool JsonBuilder::number_float(number_float_t value, const string_t& /*text*/) {
  put(value);
  return true;
}
bool JsonBuilder::string(string_t& value) {
  put(std::string_view(value));  // a copy without spare capacity
  return true;
}
bool JsonBuilder::binary(binary_t& /*value*/) { return false; }  // JSON has no binary values
bool JsonBuilder::start_object(std::size_t /*elements*/) {
  open(json::object());
  return true;
}
bool JsonBuilder::key(string_t& value) {
  auto& members = open_.back()->get_ref<json::object_t&>();
  const auto [member, is_new] = members.try_emplace(value);
  if (!is_new) fail("{} repeats the key \"{}\" in one object", context_, shortened(printable_name(value), 60));
  member_ = &member->second;
  return true;
}
bool JsonBuilder::end_object() { return close(); }
bool JsonBuilder::start_array(std::size_t /*elements*/) {
  open(json::array());
  return true;
}
bool JsonBuilder::end_array() { return close(); }
bool JsonBuilder::parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                              const nlohmann::detail::exception& /*error*/) {
  return false;
}

}  // namespace headroom
