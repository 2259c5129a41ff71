#include "measure/quality/stream_judge.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/quality/quality.hpp"
#include "media/ink.hpp"
#include "media/video/made_scene.hpp"

namespace headroom {
namespace {

constexpr double kWhiteLevel = 255;
/// PSNR assigned to a clip that equals its teacher's: an error of half a level, which rounding to bytes hides.
const double kMostPsnrDb = 10 * std::log10(kWhiteLevel * kWhiteLevel / 0.25);

void append(const Image& frame, std::vector<float>& levels) {
  levels.insert(levels.end(), frame.pixels.begin(), frame.pixels.end());
}

double psnr_of(const std::vector<Image>& wanted, const std::vector<Image>& shown) {
  std::vector<float> reference, levels;
  for (const Image& frame : wanted) append(frame, reference);
  for (const Image& frame : shown) append(frame, levels);
  return psnr_db(reference, levels, kWhiteLevel).value_or(kMostPsnrDb);
}

}  // namespace

StreamTeacher open_stream_teacher(const std::filesystem::path& model_folder) {
  const std::filesystem::path path = model_folder / "generation_config.json";
  const nlohmann::json generation = std::filesystem::exists(path) ? read_json(path) : nlohmann::json::object();
  if (!generation.contains("teacher"))
    fail("{} names no `teacher` in a generation_config.json, so its stream cannot be judged", model_folder.string());
  const nlohmann::json& stated = generation.at("teacher");
  const std::string context = path.string() + ": teacher";
  const std::string name = get_string(stated, "name", context);
  if (name != "ink") fail("{}: '{}' is not known, expected ink", context, name);
  StreamTeacher teacher{.picture = print_in_ink,
                        .camera_noise = get_double(stated, "camera_noise", context),
                        .frames = get_int(stated, "frames", context)};
  if (!(teacher.camera_noise >= 0 && teacher.camera_noise <= 1))
    fail("{}: camera_noise is {}, expected 0 to 1", context, teacher.camera_noise);
  if (teacher.frames < 3) fail("{}: frames is {}, expected 3 or more", context, teacher.frames);
  return teacher;
}

StreamTeacher open_stream_teacher(const Component& network) {
  if (network.checkpoint.is_random())
    fail_usage("--quality judges trained weights, and those of {} are random", network.name);
  return open_stream_teacher(network.folder);
}

double flicker_of(const std::vector<Image>& video) {
  if (video.size() < 3) fail("{} frames are too few to see how they flicker, expected 3 or more", video.size());
  double sum = 0, count = 0;
  for (std::size_t frame = 1; frame + 1 < video.size(); ++frame)
    for (std::size_t i = 0; i < video[frame].pixels.size(); ++i, ++count) {
      const double around = (video[frame - 1].pixels[i] + video[frame + 1].pixels[i]) / 2.0;
      sum += (video[frame].pixels[i] - around) * (video[frame].pixels[i] - around);
    }
  return std::sqrt(sum / count);
}

StreamJudgement judge_stream(const StreamTeacher& teacher, std::int64_t clips, int side, const ShowFrame& show) {
  if (clips < 1) fail_usage("{} clips to judge a stream by, expected 1 or more", clips);
  std::vector<double> psnr, flicker, teacher_flicker;
  for (std::int64_t clip = 1; clip <= clips; ++clip) {
    std::vector<Image> seen, wanted, shown;
    for (std::int64_t frame = 0; frame < teacher.frames; ++frame) {
      const Image scene = draw_scene(static_cast<std::uint32_t>(clip), frame, side);
      wanted.push_back(teacher.picture(scene));
      seen.push_back(add_camera_noise(scene, teacher.camera_noise, static_cast<std::uint64_t>(clip), frame));
      shown.push_back(show(seen.back(), frame == 0));
      if (shown.back().pixels.size() != wanted.back().pixels.size())
        fail("what is shown has {} x {} pixels, expected {} x {}", shown.back().width, shown.back().height, side, side);
    }
    psnr.push_back(psnr_of(wanted, shown));
    const double given = flicker_of(seen);
    if (given == 0) fail("clip {} does not change, so flicker cannot be measured relative to it", clip);
    flicker.push_back(flicker_of(shown) / given);
    teacher_flicker.push_back(flicker_of(wanted) / given);
  }
  return {.psnr_db = mean_estimate(psnr),
          .flicker = mean_estimate(flicker),
          .teacher_flicker = mean_estimate(teacher_flicker)};
}

StreamJudgement judge_stream(const StreamTeacher& teacher, std::int64_t clips, FrameStream& stream) {
  const ImageSize& size = stream.request().size;
  if (size.height != size.width) fail_usage("a stream of {} x {} is judged by square clips", size.width, size.height);
  if (stream.delay() != 0) fail_usage("a stream whose frames come out later than they go in cannot be judged");
  const std::unique_ptr<FrameStream::Slot> slot = stream.make_slot();
  return judge_stream(teacher, clips, static_cast<int>(size.width), [&](const Image& seen, bool begins) {
    if (begins) stream.begin(seen.pixels);
    std::ranges::copy(seen.pixels, slot->in().begin());
    stream.submit(*slot);
    stream.wait(*slot);
    Image shown = seen;
    std::ranges::copy(slot->out(), shown.pixels.begin());
    return shown;
  });
}

std::vector<QualityRecord> quality_records(const StreamJudgement& judgement) {
  const auto record = [](std::string metric, std::string against, const Estimate& estimate) {
    return QualityRecord{.metric = std::move(metric),
                         .against = std::move(against),
                         .value = estimate.value,
                         .interval = estimate.interval,
                         .note = {}};
  };
  return {record("psnr_db", "the teacher's pictures", judgement.psnr_db),
          record("flicker", "the camera's", judgement.flicker)};
}

}  // namespace headroom
