#include "cli/stream_controls.hpp"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"

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
          .takes_seed = true};
}

StreamControls parse_controls(const std::string& text, const std::string& context, const StreamControls& now) {
  const nlohmann::json json = parse_json(text, context);
  if (!json.is_object()) fail("{}: expected an object, got {}", context, json.type_name());
  StreamControls wish = now;
  for (const auto& [key, value] : json.items()) {
    if (key == "prompt") {
      wish.prompt = get_string(json, key, context);
    } else if (key == "negative_prompt") {
      wish.negative_prompt = get_string(json, key, context);
    } else if (key == "steps") {
      wish.steps = get_int(json, key, context);
    } else if (key == "strength") {
      wish.strength = get_double(json, key, context);
    } else if (key == "guidance_scale") {
      wish.guidance_scale = get_double(json, key, context);
    } else if (key == "similarity") {
      wish.similarity = get_double(json, key, context);
    } else if (key == "seed") {
      const std::int64_t seed = get_int(json, key, context);
      if (seed < 0) fail("{}: seed is {}, expected 0 or more", context, seed);
      wish.seed = static_cast<std::uint64_t>(seed);
    } else {
      fail(
          "{}: '{}' is nothing that can be changed; expected prompt, negative_prompt, steps, strength, guidance_scale, "
          "similarity or seed",
          context, key);
    }
  }
  return wish;
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
    view.want(parse_controls(read_file(path_), path_.string(), view.controls()));
  } catch (const Error& problem) {
    return problem.what();
  }
  return {};
}

}  // namespace headroom
