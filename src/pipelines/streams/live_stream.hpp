#pragma once

#include <memory>

#include "pipelines/streams/stream_model.hpp"

namespace headroom {

/// A stream through a LiveStreamUNet: pipelines/streams/live_stream_frame.hpp between pixels. `network` must outlive
/// it.
[[nodiscard]] std::unique_ptr<StreamModel> make_live_stream(const Component& network);

}  // namespace headroom
