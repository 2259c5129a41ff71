#pragma once

#include <cstdint>

namespace headroom {

/// The latency of one frame of a live stream, in milliseconds; the parts add up to the whole.
struct FrameTimes {
  std::int64_t frame = 0;  ///< its number among all input frames, including dropped ones, from 0
  double arrived_ms = 0;   ///< arrival, since the stream began, by its camera's clock if the input is paced
  double latency_ms = 0;   ///< from arrival until its output was delivered
  double decode_ms = 0;    ///< reading and decoding
  double queue_ms = 0;     ///< waiting, before and after the device; with `stream-batch` also for later frames
  double device_ms = 0;    ///< upload, the frame's graph and download
  double encode_ms = 0;    ///< encoding and writing
  bool repeated = false;   ///< the similarity filter repeated the last output
  friend bool operator==(const FrameTimes&, const FrameTimes&) = default;
};

}  // namespace headroom
