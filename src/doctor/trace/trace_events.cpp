#include "doctor/trace/trace_events.hpp"

#include <zlib.h>

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "doctor/trace/event_reader.hpp"

namespace headroom::doctor {
namespace {

constexpr std::size_t kMostEventBytes = std::size_t{4} << 20;  // call stacks make events of kilobytes

}  // namespace

/// Outside the list of events it follows the nesting of objects, lists and strings byte by byte, and collects the keys
/// at depth 1 and the name of the first device: "deviceProperties": [{"id": 0, "name": "..."}]. In the list it keeps
/// the text until an event is whole.
class TraceSplitter::State {
 public:
  State(std::string context, OnEvent on_event)
      : context_(std::move(context)), on_event_(std::move(on_event)), reader_(context_) {}

  void add(std::string_view part) {
    text_.append(part);
    if (text_.size() >= next_try_bytes_) take_text();
  }
  void finish() {
    take_text();
    if (depth_ != 0 || !has_begun_) fail("{} is cut off: its JSON does not end", context_);
    if (!has_events_) fail("{} is no trace: it has no list \"traceEvents\"", context_);
  }
  [[nodiscard]] const std::string& device() const { return device_; }

 private:
  /// Takes everything but the beginning of an event that is not yet whole.
  void take_text() {
    std::size_t at = 0;
    bool is_whole = true;
    while (at < text_.size() && is_whole) {
      if (!in_events_) {
        take(text_[at++]);
      } else if (text_[at] == '{') {
        is_whole = take_event(at);
      } else {
        take_between_events(text_[at++]);
      }
    }
    text_.erase(0, at);
    if (text_.size() > kMostEventBytes) fail("{} has an event of more than {} bytes", context_, kMostEventBytes);
    next_try_bytes_ = 2 * text_.size();  // parts of a byte each would else take quadratic time
  }
  bool take_event(std::size_t& at) {
    const std::optional<std::size_t> length = reader_.read(std::string_view(text_).substr(at));
    if (!length) return false;
    at += *length;
    if (reader_.event() != nullptr) on_event_(*reader_.event());
    return true;
  }
  void take_between_events(char c) {
    if (c == ']') {
      in_events_ = false;
      close();
    } else if (c != ',' && c != ' ' && c != '\n' && c != '\r' && c != '\t') {
      fail("{} is not valid JSON: something other than an object is in its list of events", context_);
    }
  }
  void take(char c) {
    if (in_string_) return take_in_string(c);
    switch (c) {
      case '"':
        in_string_ = true;
        last_string_.clear();
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
        if (depth_ == 1) key_ = last_string_;
        is_name_ = depth_ == kDeviceDepth && last_string_ == "name";
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
      if (is_name_ && device_.empty()) device_ = last_string_;
      is_name_ = false;
    } else if ((depth_ == 1 || (depth_ == kDeviceDepth && key_ == "deviceProperties")) &&
               last_string_.size() < kMostNameBytes) {
      last_string_ += c;
    }
  }
  void open(char c) {
    if (depth_ == 0 && has_begun_) fail("{} is no trace: text follows its end", context_);
    const bool is_list_alone = depth_ == 0 && c == '[';  // Chrome also reads that
    has_begun_ = true;
    if (is_list_alone || (depth_ == 1 && c == '[' && key_ == "traceEvents")) in_events_ = has_events_ = true;
    if (++depth_ > kMaxJsonDepth) fail("{} is nested deeper than {} levels", context_, kMaxJsonDepth);
  }
  void close() {
    if (depth_ == 0) fail("{} is no trace: a bracket closes that was not opened", context_);
    --depth_;
  }

  static constexpr int kDeviceDepth = 3;
  static constexpr std::size_t kMostNameBytes = 64;

  std::string context_;
  OnEvent on_event_;
  EventReader reader_;
  std::string text_;  // not yet taken
  std::size_t next_try_bytes_ = 0;
  std::string key_, last_string_, device_;
  bool is_name_ = false;  // the next string at this depth is a device's name
  int depth_ = 0;
  bool in_events_ = false, in_string_ = false, is_escaped_ = false, has_begun_ = false, has_events_ = false;
};

TraceSplitter::TraceSplitter(std::string context, OnEvent on_event)
    : state_(std::make_unique<State>(std::move(context), std::move(on_event))) {}
TraceSplitter::~TraceSplitter() = default;
void TraceSplitter::add(std::string_view part) { state_->add(part); }
void TraceSplitter::finish() { state_->finish(); }
const std::string& TraceSplitter::device() const { return state_->device(); }

std::string read_trace(const std::filesystem::path& path, const TraceSplitter::OnEvent& on_event) {
  const std::string name = path.native();
  if (!std::filesystem::is_regular_file(path)) fail("cannot read {}: it is no file", name);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);  // reads plain text too
  if (file == nullptr) fail("cannot read {}", name);
  constexpr unsigned kPartBytes = 1U << 18;  // stays in a second-level cache
  gzbuffer(file.get(), kPartBytes);
  TraceSplitter splitter(name, on_event);
  std::vector<char> part(kPartBytes);
  for (;;) {
    const int read = gzread(file.get(), part.data(), kPartBytes);
    if (read < 0) fail("{} is cut off or no gzip file", name);
    if (read == 0) break;
    splitter.add({part.data(), static_cast<std::size_t>(read)});
  }
  int status = Z_OK;
  static_cast<void>(gzerror(file.get(), &status));
  if (status == Z_BUF_ERROR) fail("{} is cut off or no gzip file", name);
  splitter.finish();
  return splitter.device();
}

}  // namespace headroom::doctor
