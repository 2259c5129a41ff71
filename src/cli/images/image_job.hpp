#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipelines/request.hpp"
#include "run/weights/lora.hpp"

namespace headroom {

/// One image as a user asks for it, by options, by a line of JSON, or by the text in a PNG. What is not said is left to
/// the pipeline.
struct ImageJob {
  std::optional<std::string> prompt;  ///< else the pipeline's own of `label`
  std::int64_t label = 0;
  std::optional<std::string> prompt_2;  ///< for the second text encoder, where it is to read another one
  std::optional<std::string> negative_prompt;
  std::uint64_t seed = 0;
  ImageSize size;
  std::int64_t steps = 0;        ///< 0 where it is not said, as of a side
  std::int64_t text_tokens = 0;  ///< likewise
  std::optional<double> guidance;
  std::optional<double> true_cfg_scale;
  std::string image;               ///< a picture to edit or to begin with: a path
  std::optional<double> strength;  ///< of the noise on a picture to begin with
  std::string noise;               ///< latents to begin with: a path
  std::vector<LoraUse> loras;
};

/// Its keys are those of the options of `run`: "prompt", "negative_prompt", "seed", "height"; and "loras", a list of
/// {"file": "style.safetensors", "weight": 0.8}. What is not said is left out.
[[nodiscard]] nlohmann::json to_json(const ImageJob& job);
/// `job` with what an object says besides. Keys in `others` are not looked at. Throws Error, with the context, for other
/// keys and for values that are none.
[[nodiscard]] ImageJob with_json(ImageJob job, const nlohmann::json& object,
                                 std::initializer_list<std::string_view> others, const std::string& context);

/// Throws a usage Error for a weight beyond what can be meant.
void require_lora_weight(const LoraUse& use, const std::string& context);

}  // namespace headroom
