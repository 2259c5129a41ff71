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

/// How well a stream shows what a formula makes of the same video, and how calmly.
namespace headroom {

/// What a stream model learned to do, and how it is judged: `teacher` in the generation_config.json beside it.
struct StreamTeacher {
  std::function<Image(const Image&)> picture;  ///< of a frame that no camera has seen
  double camera_noise = 0;                     ///< deviation, as a share of white, of what the stream is given
  std::int64_t frames = 0;                     ///< of a clip
};

/// Throws Error, one sentence, where the folder names no teacher, or one that is not known here.
[[nodiscard]] StreamTeacher open_stream_teacher(const std::filesystem::path& model_folder);

/// What is shown of the next frame of a clip; with `begins` of the first one of another clip.
using ShowFrame = std::function<Image(const Image& seen, bool begins)>;

/// Of clips, each counted as one.
struct StreamJudgement {
  Estimate psnr_db;  ///< of what is shown against the teacher's pictures: each clip's over all of its frames
  /// How much of the shown video's change is not steady, relative to what the stream was given: of both the root mean square distance of a
  /// frame from the mean of the two around it.
  Estimate flicker;
  Estimate teacher_flicker;  ///< the same of the teacher's own pictures, which no noise has reached
};

/// Clips 1, 2 and so on of draw_scene(), so large. Two or more give intervals. Throws Error where what is shown is not of the clip's size.
[[nodiscard]] StreamJudgement judge_stream(const StreamTeacher& teacher, std::int64_t clips, int side,
                                           const ShowFrame& show);

/// The same of a stream, which begins anew with each clip. Throws a usage Error where its frames are not square, or come out later than
/// they go in.
[[nodiscard]] StreamJudgement judge_stream(const StreamTeacher& teacher, std::int64_t clips, FrameStream& stream);

/// `psnr_db` against the teacher, and `flicker` against the camera's.
[[nodiscard]] std::vector<QualityRecord> quality_records(const StreamJudgement& judgement);

/// Root mean square distance of each frame from the mean of the two around it, in 8-bit levels. Throws Error for fewer than three frames.
[[nodiscard]] double flicker_of(const std::vector<Image>& video);

}  // namespace headroom
