#include "doctor/trace/event_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"

namespace headroom::doctor {
namespace {

/// Kinds of bytes, as bits of a table: most of a trace is passed over byte by byte.
enum : std::uint8_t { kSpace = 1, kEndsScalar = 2, kOfNumber = 4, kDigit = 8, kEndsRun = 16 };
constexpr auto kKinds = [] {
  std::array<std::uint8_t, 256> kinds{};
  const auto add = [&](std::string_view bytes, std::uint8_t kind) {
    for (const char c : bytes) kinds[static_cast<unsigned char>(c)] |= kind;
  };
  add(" \n\r\t", kSpace | kEndsScalar);
  add(",}]", kEndsScalar);
  add("+-.eE0123456789", kOfNumber);
  add("-0123456789", kDigit);
  add("\"\\", kEndsRun);
  return kinds;
}();
bool is(std::uint8_t kind, char c) { return (kKinds[static_cast<unsigned char>(c)] & kind) != 0; }

/// The first byte from `at` on that is (not) of this kind, or `end`. Local variables stay in registers.
const char* find_kind(std::uint8_t kind, const char* at, const char* end) {
  while (at < end && !is(kind, *at)) ++at;
  return at;
}
const char* pass_kind(std::uint8_t kind, const char* at, const char* end) {
  while (at < end && is(kind, *at)) ++at;
  return at;
}

/// The whole token as a number; nothing if it is none.
template <typename Number>
std::optional<Number> parse(std::string_view token) {
  Number number{};
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  return error == std::errc() && end == token.data() + token.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::size_t> EventReader::read(std::string_view text) {
  begin_ = at_ = text.data();
  end_ = begin_ + text.size();
  event_ = {};
  is_complete_event_ = false;
  std::string_view phase;
  const bool is_whole = read_members(
      1, [&](std::string_view key) { return key == "ph" ? read_text(phase, phase_, 1) : read_member(key, 1); });
  if (!is_whole) return std::nullopt;
  is_complete_event_ = phase == "X";
  event_.duration_us = std::max(0.0, event_.duration_us);
  return static_cast<std::size_t>(at_ - begin_);
}

bool EventReader::read_member(std::string_view key, int depth) {
  if (key == "name") return read_text(event_.name, name_, depth);
  if (key == "cat") return read_text(event_.category, category_, depth);
  if (key == "ts") return read_number(event_.begin_us, depth);
  if (key == "dur") return read_number(event_.duration_us, depth);
  if (key == "args" && *at_ == '{')
    return read_members(depth + 1, [&](std::string_view argument) { return read_argument(argument, depth + 1); });
  return pass_value(depth);
}

bool EventReader::read_argument(std::string_view key, int depth) {
  if (key == "correlation") return read_integer(event_.correlation, depth);
  if (key == "bytes") return read_number(event_.bytes, depth);
  if (key == "Input type" && *at_ == '[') return read_types(depth + 1);
  if (key == "Input Dims" && *at_ == '[') return read_shapes(depth + 1);
  return pass_value(depth);
}

bool EventReader::read_types(int depth) {
  event_.input_types = {};
  std::size_t i = 0;
  return read_elements(depth, [&] {
    const std::size_t at = i++;
    return at < types_.size() ? read_text(event_.input_types[at], types_[at], depth) : pass_value(depth);
  });
}

bool EventReader::read_shapes(int depth) {
  event_.input_shapes = {};
  std::size_t i = 0;
  return read_elements(depth, [&] {
    const std::size_t at = i++;
    return at < event_.input_shapes.size() && *at_ == '[' ? read_shape(event_.input_shapes[at], depth + 1)
                                                          : pass_value(depth);
  });
}

bool EventReader::read_shape(TracedShape& shape, int depth) {
  std::size_t rank = 0;
  bool is_kept = true;
  const bool is_whole = read_elements(depth, [&] {
    std::optional<std::int64_t> extent;
    if (!read_integer(extent, depth)) return false;
    is_kept = is_kept && extent && rank < shape.extents.size();
    if (is_kept) shape.extents[rank++] = *extent;
    return true;
  });
  shape.rank = is_kept ? static_cast<int>(rank) : 0;
  return is_whole;
}

bool EventReader::read_text(std::string_view& text, std::string& unescaped, int depth) {
  text = {};
  return *at_ == '"' ? read_string(text, &unescaped) : pass_value(depth);
}

bool EventReader::read_number(double& number, int depth) {
  number = 0;
  if (!is(kDigit, *at_)) return pass_value(depth);
  std::string_view token;
  if (!pass_scalar(token)) return false;
  number = parse<double>(token).value_or(0);  // too large ones too
  return true;
}

bool EventReader::read_integer(std::optional<std::int64_t>& number, int depth) {
  number.reset();
  if (!is(kDigit, *at_)) return pass_value(depth);
  std::string_view token;
  if (!pass_scalar(token)) return false;
  number = parse<std::int64_t>(token);
  return true;
}

bool EventReader::pass_space() {
  at_ = pass_kind(kSpace, at_, end_);
  return at_ < end_;
}

bool EventReader::pass_value(int depth) {
  std::string_view passed;
  switch (*at_) {
    case '"':
      return read_string(passed, nullptr);
    case '{':
      return read_members(depth + 1, [&](std::string_view /*key*/) { return pass_value(depth + 1); });
    case '[':
      return read_elements(depth + 1, [&] { return pass_value(depth + 1); });
    default:
      return pass_scalar(passed);
  }
}

bool EventReader::pass_scalar(std::string_view& token) {
  const char* const begin = at_;
  if (is(kDigit, *at_)) {
    at_ = pass_kind(kOfNumber, at_, end_);
  } else {
    at_ = find_kind(kEndsScalar, at_, end_);
    token = {begin, static_cast<std::size_t>(at_ - begin)};
    if (at_ < end_ && token != "true" && token != "false" && token != "null") fail_here("a value");
  }
  token = {begin, static_cast<std::size_t>(at_ - begin)};
  if (at_ < end_ && !is(kEndsScalar, *at_)) fail_here("the end of a number");
  return at_ < end_;
}

bool EventReader::read_string(std::string_view& text, std::string* unescaped) {
  const char* const quote = at_++;
  bool has_escape = false;
  for (;; at_ += 2) {
    at_ = find_kind(kEndsRun, at_, end_);
    if (at_ == end_) return false;
    if (*at_ == '"') break;
    has_escape = true;
    if (end_ - at_ < 2) return false;
  }
  ++at_;
  text = {quote + 1, static_cast<std::size_t>(at_ - quote - 2)};
  if (has_escape && unescaped != nullptr) {
    *unescaped = parse_json({quote, static_cast<std::size_t>(at_ - quote)}, context_).get<std::string>();
    text = *unescaped;
  }
  return true;
}

/// At the opening brace; `on_member` is called at each value.
template <typename OnMember>
bool EventReader::read_members(int depth, OnMember on_member) {
  if (depth > kMaxJsonDepth) fail("{} is nested deeper than {} levels", context_, kMaxJsonDepth);
  ++at_;
  if (!pass_space()) return false;
  if (*at_ == '}') {
    ++at_;
    return true;
  }
  for (;;) {
    std::string_view key;
    if (*at_ != '"') fail_here("a key");
    if (!read_string(key, nullptr) || !pass_space()) return false;
    if (*at_ != ':') fail_here("':'");
    ++at_;
    if (!pass_space() || !on_member(key) || !pass_space()) return false;
    if (*at_ == '}') break;
    if (*at_ != ',') fail_here("',' or '}'");
    ++at_;
    if (!pass_space()) return false;
  }
  ++at_;
  return true;
}

/// At the opening bracket; `on_element` is called at each element.
template <typename OnElement>
bool EventReader::read_elements(int depth, OnElement on_element) {
  if (depth > kMaxJsonDepth) fail("{} is nested deeper than {} levels", context_, kMaxJsonDepth);
  ++at_;
  if (!pass_space()) return false;
  if (*at_ == ']') {
    ++at_;
    return true;
  }
  for (;;) {
    if (!on_element() || !pass_space()) return false;
    if (*at_ == ']') break;
    if (*at_ != ',') fail_here("',' or ']'");
    ++at_;
    if (!pass_space()) return false;
  }
  ++at_;
  return true;
}

void EventReader::fail_here(std::string_view expected) const {
  fail("{} is not valid JSON: {} is missing at byte {} of an event", context_, expected, at_ - begin_);
}

}  // namespace headroom::doctor
