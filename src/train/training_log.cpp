#include "train/training_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

/// Whether a line is one of this log and of a step up to `last_step`. The last line of a killed run may be cut.
bool is_kept(std::string_view line, std::int64_t last_step) {
  try {
    return get_int(parse_json(line, "log"), "step", "log") <= last_step;
  } catch (const Error&) {
    return false;
  }
}

std::string kept_lines(std::string_view text, std::int64_t last_step) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    if (is_kept(text.substr(0, end), last_step)) kept.append(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return kept;
}

}  // namespace

TrainingLog::TrainingLog(std::filesystem::path path, std::int64_t last_step) : path_(std::move(path)) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30U;
  const std::string before = is_there(path_) ? read_file(path_, {.most_bytes = kMostBytes}) : "";
  write_file_atomically(path_, kept_lines(before, last_step));
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) fail("{}: cannot be written: {}", path_.native(), std::generic_category().message(errno));
}

TrainingLog::~TrainingLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TrainingLog::append(const nlohmann::json& line) {
  const std::string text = dump_json(line) + "\n";
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("{}: cannot be written: {}", path_.native(), reason_not_written(errno, path_, text.size()));
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

void TrainingLog::flush() {
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL)
    fail("{}: cannot be written: {}", path_.native(), std::generic_category().message(errno));
}

}  // namespace headroom
