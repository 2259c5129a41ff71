#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "backends/region_recording.hpp"

namespace headroom {

/// Recordings of a program's straight runs of steps, and of the whole program. Recordings contain addresses, so each
/// set of bound memory has its own. Recordings of the most recently used sets are kept.
class Recordings {
 public:
  static constexpr std::size_t kMostSets = 4;

  /// Later runs read and write this memory.
  void choose(std::vector<DevicePointer> bound);
  /// The recording of the run that begins with that step; null if none was made with these addresses.
  [[nodiscard]] Recording* find(int first_step) const;
  Recording& add(int first_step, std::unique_ptr<Recording> recording);
  /// The recording of the whole program; null if none was made with these addresses.
  [[nodiscard]] RegionRecording* whole() const;
  RegionRecording& add_whole(std::unique_ptr<RegionRecording> recording);
  /// The number of recordings made so far.
  [[nodiscard]] std::int64_t made() const noexcept { return made_; }

 private:
  struct Set {
    std::vector<DevicePointer> bound;
    std::map<int, std::unique_ptr<Recording>> recordings = {};  // by first step
    std::unique_ptr<RegionRecording> whole = {};
  };
  std::vector<Set> sets_;  // the most recently used one first
  std::int64_t made_ = 0;
};

}  // namespace headroom
