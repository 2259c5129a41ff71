#pragma once

#include <cstdint>

namespace headroom {

/// What a frame of a live stream took on its way, in milliseconds: the parts add up to all of it.
struct FrameTimes {
  std::int64_t frame = 0;  ///< its number among those that came, dropped ones counted, 0 first
  double arrived_ms = 0;   ///< since the stream began: when it came, by its camera's clock where the input is paced
  double latency_ms = 0;   ///< from then until what was made of it had been given away
  double decode_ms = 0;    ///< reading and decoding
  double queue_ms = 0;     ///< waiting, before the device and behind it; with `stream-batch` also for later frames
  double device_ms = 0;    ///< upload, the frame's graph and download
  double encode_ms = 0;    ///< encoding and writing
  bool repeated = false;   ///< the similarity filter showed the last output again
  friend bool operator==(const FrameTimes&, const FrameTimes&) = default;
};

}  // namespace headroom
