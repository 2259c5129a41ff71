#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace headroom {

/// A file of JSON Lines, each with the number of a "step", to which lines are appended. A line is in the file when
/// append() returns, and on the disk when flush() does.
class TrainingLog {
 public:
  /// Keeps the lines of an existing file up to and including those of `last_step`. Throws Error if it cannot be read or
  /// written.
  TrainingLog(std::filesystem::path path, std::int64_t last_step);
  ~TrainingLog();
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  void append(const nlohmann::json& line);
  void flush();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace headroom
