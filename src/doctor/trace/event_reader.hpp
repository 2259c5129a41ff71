#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "doctor/trace/trace_events.hpp"

namespace headroom::doctor {

/// Reads the JSON object of one event, without building a value of it.
class EventReader {
 public:
  /// `context` names the trace in messages and must outlive the reader.
  explicit EventReader(std::string_view context) : context_(context) {}

  /// The length of the object that `text` begins with; nothing if the text ends within it. Throws Error if it is not
  /// valid JSON or nested too deeply.
  [[nodiscard]] std::optional<std::size_t> read(std::string_view text);
  /// The event that was read last, or null if it was not a complete one ("ph": "X"). Valid as long as `text`.
  [[nodiscard]] const TraceEvent* event() const { return is_complete_event_ ? &event_ : nullptr; }

 private:
  // Each returns false if the text ends first.
  bool pass_space();
  bool pass_value(int depth);
  bool pass_scalar(std::string_view& token);
  bool read_string(std::string_view& text, std::string* unescaped);
  bool read_text(std::string_view& text, std::string& unescaped, int depth);
  bool read_number(double& number, int depth);
  bool read_integer(std::optional<std::int64_t>& number, int depth);
  bool read_types(int depth);
  bool read_shapes(int depth);
  bool read_shape(TracedShape& shape, int depth);
  bool read_member(std::string_view key, int depth);
  bool read_argument(std::string_view key, int depth);
  template <typename OnMember>
  bool read_members(int depth, OnMember on_member);
  template <typename OnElement>
  bool read_elements(int depth, OnElement on_element);
  [[noreturn]] void fail_here(std::string_view expected) const;

  std::string_view context_;
  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  TraceEvent event_;
  bool is_complete_event_ = false;
  std::string name_, category_, phase_;  // texts with escapes, unescaped
  std::array<std::string, 2> types_;
};

}  // namespace headroom::doctor
