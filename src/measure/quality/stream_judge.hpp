#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/statistics/statistics.hpp"
#include "media/image.hpp"
#include "pipelines/streams/frame_stream.hpp"
#include "run/component.hpp"

/// Judges a stream model against a formula's pictures of the same video: how close its frames are, and how they
/// flicker.
namespace headroom {

/// The formula that a stream model was trained on, and how the model is judged: `teacher` in its
/// generation_config.json.
struct StreamTeacher {
  std::function<Image(const Image&)> picture;  ///< of a frame without camera noise
  double camera_noise = 0;                     ///< standard deviation of the input's noise, as a share of white
  std::int64_t frames = 0;                     ///< of a clip
};

/// Throws Error, one sentence, if the folder names no teacher or an unknown one.
[[nodiscard]] StreamTeacher open_stream_teacher(const std::filesystem::path& model_folder);
/// That of a network's folder. Throws a usage Error if its weights are random, since the teacher taught them nothing.
[[nodiscard]] StreamTeacher open_stream_teacher(const Component& network);

/// Returns the output for the next frame of a clip; `begins` marks the first frame of a clip.
using ShowFrame = std::function<Image(const Image& seen, bool begins)>;

/// Figures over clips, each clip counted as one.
struct StreamJudgement {
  Estimate psnr_db;  ///< of the output against the teacher's pictures: each clip's over all of its frames
  /// The unsteady change of the output relative to that of the input. For both it is the root mean square distance of
  /// a frame from the mean of its two neighbours.
  Estimate flicker;
  Estimate teacher_flicker;  ///< the same for the teacher's own pictures, made from input without noise
};

/// Judges clips 1, 2, ... of draw_scene(), `side` pixels square. Two or more give intervals. Throws Error if an
/// output has another size than the clip.
[[nodiscard]] StreamJudgement judge_stream(const StreamTeacher& teacher, std::int64_t clips, int side,
                                           const ShowFrame& show);

/// The same for a stream, which is restarted for each clip. Throws a usage Error if its frames are not square, or its
/// output lags behind its input.
[[nodiscard]] StreamJudgement judge_stream(const StreamTeacher& teacher, std::int64_t clips, FrameStream& stream);

/// `psnr_db` against the teacher, and `flicker` relative to the camera's input.
[[nodiscard]] std::vector<QualityRecord> quality_records(const StreamJudgement& judgement);

/// Root mean square distance of each frame from the mean of its two neighbours, in 8-bit levels. Throws Error for
/// fewer than three frames.
[[nodiscard]] double flicker_of(const std::vector<Image>& video);

}  // namespace headroom
