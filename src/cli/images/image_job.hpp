#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipelines/request.hpp"
#include "run/weights/lora.hpp"

namespace headroom {

/// One requested image, from options, from a line of JSON, or from the text in a PNG. Values that are not given are
/// left to the pipeline.
struct ImageJob {
  std::optional<std::string> prompt;  ///< default: the pipeline's own prompt for `label`
  std::int64_t label = 0;
  std::optional<std::string> prompt_2;  ///< for the second text encoder, if it differs
  std::optional<std::string> negative_prompt;
  std::uint64_t seed = 0;
  ImageSize size;
  std::int64_t steps = 0;        ///< 0 if not given; likewise for a side
  std::int64_t text_tokens = 0;  ///< likewise
  std::optional<double> guidance;
  std::optional<double> true_cfg_scale;
  std::vector<std::string> images;  ///< paths of images to edit, or of one to start from
  std::optional<double> strength;   ///< share of noise on the initial image
  std::string noise;                ///< path of the initial latents
  std::vector<LoraUse> loras;
};

/// The keys are the names of the options of `run`: "prompt", "negative_prompt", "seed", "height"; "image", a path or a
/// list of paths; and "loras", a list of {"file": "style.safetensors", "weight": 0.8}. Values that are not given are
/// left out.
[[nodiscard]] nlohmann::json to_json(const ImageJob& job);
/// `job` with the additional values of a JSON object. Keys in `others` are ignored. Throws Error, with the context,
/// for unknown keys and invalid values.
[[nodiscard]] ImageJob with_json(ImageJob job, const nlohmann::json& object,
                                 std::initializer_list<std::string_view> others, const std::string& context);

/// Throws a usage Error for a weight outside the plausible range.
void require_lora_weight(const LoraUse& use, const std::string& context);

}  // namespace headroom
