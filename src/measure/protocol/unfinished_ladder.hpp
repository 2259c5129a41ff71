#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "measure/protocol/ladder.hpp"

namespace headroom {

/// The file of a ladder in progress, replaced atomically after each visit, so that an interrupted ladder can
/// continue. Its schema is headroom.unfinished_ladder/1. It is not a result file, and is removed once there is one.
class UnfinishedLadder {
 public:
  /// `options` describe the ladder: an object of scalars.
  UnfinishedLadder(std::filesystem::path path, nlohmann::json options);

  /// Loads the file into a ladder without visits and returns the number of visits; 0 if there is no file. Throws
  /// Error, listing the differences, if the file holds another ladder or comes from another machine, build or
  /// revision.
  [[nodiscard]] std::int64_t restore(Ladder& ladder) const;
  void save(const Ladder& ladder) const;
  /// Removes the file.
  void finish() const;

 private:
  std::filesystem::path path_;
  nlohmann::json options_;
};

/// The process number for continuing a ladder: one more than any that has measured it.
[[nodiscard]] std::int64_t next_process(const Ladder& ladder);

}  // namespace headroom
