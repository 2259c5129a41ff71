#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "cli/streams/live_view.hpp"
#include "measure/statistics/latency.hpp"
#include "media/video/video.hpp"
#include "pipelines/streams/frame_stream.hpp"

namespace headroom {

struct StreamRunOptions {
  std::optional<double> fps = {};  ///< that the input is paced at; without, frames come as fast as they are taken
  bool drops = false;              ///< a frame that is still waiting when the next one comes is dropped
  bool is_live = false;            ///< the input waits for a camera: a frame has come when it has been read
  std::int64_t frames = -1;        ///< after which the stream ends; less than 0 for all there are
};

/// What a stream came to.
struct StreamEnd {
  LatencyRecord latency;
  std::string input_error;  ///< why the input ended before its end, in a sentence; empty where it did not
  bool is_interrupted = false;
};

/// Runs a video through a stream: one thread reads and decodes, the calling one has the device work, one encodes and writes. Frames go from
/// one to the next in slots whose number is fixed, in order. While it is paused (StreamControls) no frame is taken: those of a camera, that is
/// of an input that is live or paced, are dropped as they come, and others are not read. What is there of the output is finished whatever ends the stream, the
/// input, an interruption (base/interrupt.hpp), or an Error of the input, which is told in the result.
class StreamRunner {
 public:
  /// All must outlive it but the reader, which a thread that waits for its input may hold until the process ends.
  StreamRunner(std::unique_ptr<VideoReader> reader, std::unique_ptr<VideoWriter> writer, FrameStream& stream,
               LiveView& view, const StreamRunOptions& options);
  ~StreamRunner();
  StreamRunner(const StreamRunner&) = delete;
  StreamRunner& operator=(const StreamRunner&) = delete;

  /// `on_frame` is called between frames, in the calling thread, at least ten times a second. Throws Error where the output cannot be
  /// written, and where there is no frame at all.
  [[nodiscard]] StreamEnd run(const std::function<void(const LatencyLog& log)>& on_frame = {});

 private:
  class Shared;
  bool work(const std::function<void(const LatencyLog& log)>& on_frame);
  void apply_wishes();

  std::shared_ptr<Shared> shared_;
  FrameStream& stream_;
  LiveView& view_;
  StreamRunOptions options_;
};

}  // namespace headroom
