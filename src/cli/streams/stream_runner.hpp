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
  std::optional<double> fps = {};  ///< pace of the input; without it frames are read as fast as they are taken
  bool drops = false;              ///< drops a frame that still waits when the next one arrives
  bool is_live = false;            ///< the input waits for a camera: a frame arrives when it has been read
  std::int64_t frames = -1;        ///< ends the stream after this number; negative for no limit
};

/// The outcome of a stream.
struct StreamEnd {
  LatencyRecord latency;
  std::string input_error;  ///< why the input failed, in a sentence; empty if it did not
  bool is_interrupted = false;
};

/// Runs a video through a stream. One thread reads and decodes, the calling thread submits device work, and one
/// encodes and writes. Frames pass between them in order, in a fixed number of slots. No frames are processed while
/// it is paused (StreamControls). An input that is live or paced then drops its frames as they arrive; other inputs
/// are not read. The output is always completed, whether the stream ends with the input, by an interruption
/// (base/interrupt.hpp), or by an Error of the input, which is reported in the result.
class StreamRunner {
 public:
  /// All arguments must outlive it except the reader. A thread that waits for its input may hold the reader until
  /// the process ends.
  StreamRunner(std::unique_ptr<VideoReader> reader, std::unique_ptr<VideoWriter> writer, FrameStream& stream,
               LiveView& view, const StreamRunOptions& options);
  ~StreamRunner();
  StreamRunner(const StreamRunner&) = delete;
  StreamRunner& operator=(const StreamRunner&) = delete;

  /// `on_frame` is called between frames, in the calling thread, at least ten times a second. Throws Error if the
  /// output cannot be written, and if the input has no frame at all.
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
