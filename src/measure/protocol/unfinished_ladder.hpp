#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "measure/protocol/ladder.hpp"

namespace headroom {

/// A ladder on its way, in a file that is replaced whole after each visit: one that is stopped or killed goes on where
/// it was. Its schema is headroom.unfinished_ladder/1: no result, and gone once there is one.
class UnfinishedLadder {
 public:
  /// `options` say what is climbed: an object of scalars.
  UnfinishedLadder(std::filesystem::path path, nlohmann::json options);

  /// Brings what the file holds into a ladder without visits and returns how many visits those are; 0 where there is no
  /// file. Throws Error, listing what differs, where it holds another ladder or comes from another machine, build or
  /// revision.
  [[nodiscard]] std::int64_t restore(Ladder& ladder) const;
  void save(const Ladder& ladder) const;
  /// Removes the file.
  void finish() const;

 private:
  std::filesystem::path path_;
  nlohmann::json options_;
};

/// The number of the process that goes on with a ladder: one more than any that has measured it.
[[nodiscard]] std::int64_t next_process(const Ladder& ladder);

}  // namespace headroom
