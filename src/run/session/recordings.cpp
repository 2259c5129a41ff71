#include "run/session/recordings.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace headroom {

void Recordings::choose(std::vector<DevicePointer> bound) {
  auto set = std::ranges::find(sets_, bound, &Set::bound);
  if (set == sets_.end()) {
    if (sets_.size() == kMostSets) sets_.pop_back();
    set = sets_.insert(sets_.end(), Set{.bound = std::move(bound)});
  }
  std::rotate(sets_.begin(), set, set + 1);
}

Recording* Recordings::find(int first_step) const {
  HR_CHECK(!sets_.empty());
  const auto found = sets_.front().recordings.find(first_step);
  return found == sets_.front().recordings.end() ? nullptr : found->second.get();
}

Recording& Recordings::add(int first_step, std::unique_ptr<Recording> recording) {
  ++made_;
  return *(sets_.front().recordings[first_step] = std::move(recording));
}

RegionRecording* Recordings::whole() const {
  HR_CHECK(!sets_.empty());
  return sets_.front().whole.get();
}

RegionRecording& Recordings::add_whole(std::unique_ptr<RegionRecording> recording) {
  ++made_;
  return *(sets_.front().whole = std::move(recording));
}

}  // namespace headroom
