#include "cli/streams/stream_controls.hpp"

#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "cli/live/status.hpp"

namespace headroom {

StreamControls controls_of(const StreamRequest& request) {
  return {.prompt = request.prompt,
          .negative_prompt = request.negative_prompt,
          .steps = request.steps,
          .strength = request.strength,
          .guidance_scale = request.guidance_scale,
          .similarity = request.filter.threshold,
          .seed = request.seed};
}

StreamFacts facts_of(const FrameStream& stream, std::string device, double fps) {
  const StreamRequest& request = stream.request();
  const Pipeline* const pipeline = stream.model().pipeline();
  return {.model = stream.model().denoiser().name,
          .device = std::move(device),
          .switches = stream.options().switches.to_string(),
          .width = request.size.width,
          .height = request.size.height,
          .fps = fps,
          .takes_prompt = pipeline != nullptr && !pipeline->text_readers().empty(),
          .takes_negative_prompt = request.guidance == ResidualGuidance::kInitialize,
          .takes_steps = !request.is_batched,
          .takes_strength = stream.model().takes_strength(),
          .takes_guidance = request.guidance != ResidualGuidance::kNone,
          .takes_similarity = request.is_filtered,
          .takes_seed = true,
          .takes_pause = true};
}

std::string ControlFile::poll(LiveView& view) {
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(path_, error);
  if (error) return {};
  const std::uintmax_t size = std::filesystem::file_size(path_, error);
  if (error || (changed == changed_ && size == size_)) return {};
  changed_ = changed;
  size_ = size;
  try {
    view.want(change_controls(read_file(path_), path_.string(), view.goal()));
  } catch (const Error& problem) {
    return problem.what();
  }
  return {};
}

}  // namespace headroom
