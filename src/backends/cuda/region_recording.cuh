#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/region_recording.hpp"

namespace headroom::cuda {

/// See RegionBackend. A loop is a WHILE node of a CUDA graph, a branch an IF node.
[[nodiscard]] std::unique_ptr<RegionRecording> record_regions(
    Backend& backend, Stream& stream, const std::function<void(RegionRecorder& recorder)>& submit);
[[nodiscard]] std::string obstacle_in_region(Stream& stream, const std::function<void()>& submit);

}  // namespace headroom::cuda
