#include "base/files/leftovers.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace headroom {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPartial = kPartialMark.substr(1);  // a suffix has no dot

/// Removes a number from the front of the text and returns it.
std::optional<pid_t> take_number(std::string_view& text) {
  pid_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The process of a temporary name: 12 for "12-0.tmp" and "partial.12".
std::optional<pid_t> process_of(std::string_view suffix) {
  const bool is_folder = suffix.starts_with(kPartial);
  if (is_folder) suffix.remove_prefix(kPartial.size());
  const std::optional<pid_t> process = take_number(suffix);
  if (is_folder) return suffix.empty() ? process : std::nullopt;
  if (!process || !suffix.starts_with('-')) return std::nullopt;
  suffix.remove_prefix(1);
  return take_number(suffix) && suffix == ".tmp" ? process : std::nullopt;
}

/// Whether no process holds such names. The own process counts as gone: its files are locked, and a process number
/// may be reused.
bool is_gone(pid_t process) {
  if (process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH)) return true;
  // One that was killed has a number until its parent asks for its end; its state follows its name in brackets.
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  std::getline(file, stat, '\0');
  const std::size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && (stat[name_end + 2] == 'Z' || stat[name_end + 2] == 'X');
}

void remove_where_nobody_holds(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status {};
  const bool is_ours = ::fstat(descriptor, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
  if (is_ours && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ::close(descriptor);
}

}  // namespace

bool hold_temporary(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

void remove_leftovers(const fs::path& target) {
  const std::string prefix = target.filename().native() + ".";
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(target.has_parent_path() ? target.parent_path() : fs::path("."), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (!name.starts_with(prefix)) continue;
    const std::optional<pid_t> process = process_of(std::string_view(name).substr(prefix.size()));
    if (process && is_gone(*process)) found.push_back(entry->path());
  }
  for (const fs::path& path : found) remove_where_nobody_holds(path);
}

PartialFolder::PartialFolder(fs::path target) : target_(std::move(target)) {
  remove_leftovers(target_);
  path_ = target_;
  path_ += std::string(kPartialMark) + std::to_string(::getpid());
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  if (!fs::create_directory(path_))
    throw fs::filesystem_error("cannot make folder", path_, std::make_error_code(std::errc::file_exists));
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ >= 0) static_cast<void>(hold_temporary(descriptor_));
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PartialFolder::commit() {
  fs::rename(path_, target_);
  path_.clear();
}

}  // namespace headroom
