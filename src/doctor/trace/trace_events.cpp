#include "doctor/trace/trace_events.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"

namespace headroom::doctor {
namespace {

using nlohmann::json;

constexpr std::size_t kMostEventBytes = std::size_t{4} << 20;  // call stacks make events of kilobytes
constexpr int kMostDepth = kMaxJsonDepth;

/// A member as text; numbers as they are written.
std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump(-1, ' ', false, json::error_handler_t::replace);
}

double number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  const double value = found != object.end() && found->is_number() ? found->get<double>() : 0;
  return std::isfinite(value) ? value : 0;
}

std::optional<std::int64_t> integer_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

std::optional<TraceEvent> event_of(const json& object) {
  if (!object.is_object() || text_of(object, "ph") != "X") return std::nullopt;
  TraceEvent event;
  event.name = text_of(object, "name");
  event.category = text_of(object, "cat");
  event.begin_us = number_of(object, "ts");
  event.duration_us = std::max(0.0, number_of(object, "dur"));
  event.thread = text_of(object, "pid") + "/" + text_of(object, "tid");
  const auto args = object.find("args");
  if (args == object.end() || !args->is_object()) return event;
  event.correlation = integer_of(*args, "correlation");
  event.stream = integer_of(*args, "stream");
  event.bytes = number_of(*args, "bytes");
  if (const auto dims = args->find("Input Dims"); dims != args->end() && dims->is_array())
    for (const json& one : *dims) {
      std::vector<std::int64_t> shape;
      if (one.is_array())
        for (const json& extent : one)
          if (extent.is_number_integer()) shape.push_back(extent.get<std::int64_t>());
      event.input_dims.push_back(std::move(shape));
    }
  if (const auto types = args->find("Input type"); types != args->end() && types->is_array())
    for (const json& one : *types) event.input_types.push_back(one.is_string() ? one.get<std::string>() : "");
  return event;
}

}  // namespace

/// Follows the nesting of objects, lists and strings. At depth 1 it collects keys, in the list of "traceEvents" at
/// depth 2 whole elements; everything else is passed over.
class TraceSplitter::State {
 public:
  State(std::string context, OnEvent on_event) : context_(std::move(context)), on_event_(std::move(on_event)) {}

  void add(std::string_view part) {
    for (const char c : part) take(c);
  }
  void finish() const {
    if (depth_ != 0 || !has_begun_) fail("{} is cut off: its JSON does not end", context_);
    if (!has_events_) fail("{} is no trace: it has no list \"traceEvents\"", context_);
  }

 private:
  void take(char c) {
    if (in_events() && (depth_ > 2 || (c == '{' && !in_string_))) keep(c);
    if (in_string_) return take_in_string(c);
    switch (c) {
      case '"':
        in_string_ = true;
        text_.clear();
        break;
      case '{':
      case '[':
        open(c);
        break;
      case '}':
      case ']':
        close();
        break;
      case ':':
        if (depth_ == 1) key_ = text_;
        break;
      default:
        break;
    }
  }
  void take_in_string(char c) {
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (c == '\\') {
      is_escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    } else if (depth_ == 1 && text_.size() < 32) {
      text_ += c;
    }
  }
  void open(char c) {
    if (depth_ == 0) {
      if (has_begun_) fail("{} is no trace: text follows its end", context_);
      has_begun_ = true;
      if (c == '[') {  // Chrome also reads the list alone
        depth_ = 2;
        events_depth_ = 2;
        has_events_ = true;
        return;
      }
    }
    if (depth_ == 1 && c == '[' && key_ == "traceEvents") {
      events_depth_ = 2;
      has_events_ = true;
    }
    if (++depth_ > kMostDepth) fail("{} is nested deeper than {} levels", context_, kMostDepth);
  }
  void close() {
    if (depth_ == 0) fail("{} is no trace: a bracket closes that was not opened", context_);
    if (in_events() && depth_ == 3) end_event();
    --depth_;
    if (events_depth_ != 0 && depth_ < events_depth_) {
      events_depth_ = 0;
      if (depth_ == 1 && !key_.empty())
        key_.clear();
      else
        depth_ = 0;  // of a list alone
    }
  }
  void end_event() {
    const std::optional<TraceEvent> event = event_of(parse_json(event_, context_));
    event_.clear();
    if (event) on_event_(*event);
  }
  void keep(char c) {
    if (event_.size() >= kMostEventBytes) fail("{} has an event of more than {} bytes", context_, kMostEventBytes);
    event_ += c;
  }
  [[nodiscard]] bool in_events() const { return events_depth_ != 0 && depth_ >= events_depth_; }

  std::string context_;
  OnEvent on_event_;
  std::string key_, text_, event_;
  int depth_ = 0, events_depth_ = 0;
  bool in_string_ = false, is_escaped_ = false, has_begun_ = false, has_events_ = false;
};

TraceSplitter::TraceSplitter(std::string context, OnEvent on_event)
    : state_(std::make_unique<State>(std::move(context), std::move(on_event))) {}
TraceSplitter::~TraceSplitter() = default;
void TraceSplitter::add(std::string_view part) { state_->add(part); }
void TraceSplitter::finish() { state_->finish(); }

void read_trace(const std::filesystem::path& path, const TraceSplitter::OnEvent& on_event) {
  const std::string name = path.native();
  if (!std::filesystem::is_regular_file(path)) fail("cannot read {}: it is no file", name);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);  // reads plain text too
  if (file == nullptr) fail("cannot read {}", name);
  TraceSplitter splitter(name, on_event);
  std::vector<char> part(std::size_t{1} << 20);
  for (;;) {
    const int read = gzread(file.get(), part.data(), static_cast<unsigned>(part.size()));
    if (read < 0) fail("{} is cut off or no gzip file", name);
    if (read == 0) break;
    splitter.add({part.data(), static_cast<std::size_t>(read)});
  }
  int status = Z_OK;
  static_cast<void>(gzerror(file.get(), &status));
  if (status == Z_BUF_ERROR) fail("{} is cut off or no gzip file", name);
  splitter.finish();
}

}  // namespace headroom::doctor
