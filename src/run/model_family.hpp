#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "io/network_family.hpp"
#include "models/named_shapes.hpp"

namespace headroom {

/// Models that are published as single files, and what their files do not tell.
struct ModelFamily {
  std::string_view name;      ///< "Stable Diffusion 1.x"
  std::string_view pipeline;  ///< its class, as in a model_index.json
  std::string_view denoiser;  ///< its part: "unet"
  std::string_view denoiser_class;
  /// The class of its text encoder if that is a language model; empty if its text encoders are CLIP and T5, or unknown.
  std::string_view language_class;
  bool has_autoencoder = true;  ///< whether its files may hold one that can be opened
  /// Values of configurations that names and shapes do not tell: {"vae": {"scaling_factor": 0.18215}}. The part
  /// `scheduler` is a whole scheduler_config.json. `channels_per_head` of a U-Net gives its `attention_head_dim`.
  std::string_view values;
};

/// All families.
[[nodiscard]] std::span<const ModelFamily> model_families();
/// The family of a denoiser, by the names and shapes of its tensors. Null for another network.
[[nodiscard]] const ModelFamily* family_of_denoiser(const NetworkPart& part, const NamedShapes& shapes);
/// The family of a network that is in no file with a denoiser. Of a pipeline's class, or of any if that is empty, the
/// first that it fits. Null if it fits none.
[[nodiscard]] const ModelFamily* family_of_part(const NetworkPart& part, const NamedShapes& shapes,
                                                std::string_view pipeline);

/// A part of a family's pipeline.
struct FamilyRole {
  std::string role;        ///< "text_encoder_2"; empty if the pipeline has no such part
  std::string class_name;  ///< "CLIPTextModelWithProjection"
};
[[nodiscard]] FamilyRole role_in(const ModelFamily& family, const NetworkPart& part);
/// The family's values for a part; an empty object if it has none.
[[nodiscard]] nlohmann::json values_of(const ModelFamily& family, std::string_view role);

}  // namespace headroom
