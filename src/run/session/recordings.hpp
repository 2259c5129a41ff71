#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "backends/region_recording.hpp"

namespace headroom {

/// Recordings of a program's straight runs of steps, and of the whole program. They hold addresses, so there are some
/// for each set of memory that has been bound; those of the few sets used last are kept.
class Recordings {
 public:
  static constexpr std::size_t kMostSets = 4;

  /// From now on runs read and write there.
  void choose(std::vector<DevicePointer> bound);
  /// Of the run that begins with that step; null where it has not been recorded at these addresses.
  [[nodiscard]] Recording* find(int first_step) const;
  Recording& add(int first_step, std::unique_ptr<Recording> recording);
  /// Of the whole program; null where that has not been recorded at these addresses.
  [[nodiscard]] RegionRecording* whole() const;
  RegionRecording& add_whole(std::unique_ptr<RegionRecording> recording);
  /// How many have been made so far.
  [[nodiscard]] std::int64_t made() const noexcept { return made_; }

 private:
  struct Set {
    std::vector<DevicePointer> bound;
    std::map<int, std::unique_ptr<Recording>> recordings = {};  // by first step
    std::unique_ptr<RegionRecording> whole = {};
  };
  std::vector<Set> sets_;  // the one used last comes first
  std::int64_t made_ = 0;
};

}  // namespace headroom
