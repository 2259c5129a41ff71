#include "models/component.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/nearest.hpp"
#include "models/autoencoders/autoencoder_kl.hpp"
#include "models/autoencoders/autoencoder_kl_flux2.hpp"
#include "models/autoencoders/autoencoder_kl_qwen_image.hpp"
#include "models/autoencoders/autoencoder_tiny.hpp"
#include "models/config.hpp"
#include "models/language_models/gpt2.hpp"
#include "models/text_encoders/clip_text.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/text_encoders/t5_encoder.hpp"
#include "models/transformers/flux.hpp"
#include "models/transformers/flux2.hpp"
#include "models/transformers/flux3.hpp"
#include "models/transformers/qwen_image.hpp"
#include "models/transformers/z_image.hpp"
#include "models/unets/live_stream_unet.hpp"
#include "models/unets/unet2d.hpp"
#include "models/unets/unet2d_condition.hpp"

namespace headroom {

std::span<const ComponentClass> component_classes() {
  static const std::vector<ComponentClass> kClasses = {
      flux_transformer_class(),
      flux2_transformer_class(),
      flux3_transformer_class(),
      qwen_image_transformer_class(),
      z_image_transformer_class(),
      autoencoder_kl_class(),
      autoencoder_kl_flux2_class(),
      autoencoder_kl_qwen_image_class(),
      autoencoder_tiny_class(),
      t5_encoder_class(),
      clip_text_class(),
      clip_text_with_projection_class(),
      qwen25_vl_class(),
      qwen3_class(),
      qwen3_vl_class(),
      unet2d_condition_class(),
      unet2d_class(),
      live_stream_unet_class(),
      gpt2_class(),
  };
  return kClasses;
}

const ComponentClass& class_of(const nlohmann::json& config) {
  const std::string name = config::class_name(config);
  std::vector<std::string_view> names;
  for (const ComponentClass& known : component_classes()) {
    if (name == known.name) return known;
    names.push_back(known.name);
  }
  config::refuse_class(config, fmt::format("one of {}", fmt::join(names, ", ")));
}

const ComponentPass& pass_named(const ComponentClass& component, std::string_view name) {
  const auto found = std::ranges::find(component.passes, name, &ComponentPass::name);
  if (found != component.passes.end()) return *found;
  std::vector<std::string> names;
  for (const ComponentPass& pass : component.passes) names.emplace_back(pass.name);
  fail_usage("{} has no pass '{}': expected one of {}{}", component.name, name, fmt::join(names, ", "),
             did_you_mean(std::string(name), names));
}

const ComponentPass& pass_for(const ComponentClass& component, const InputShapes& given) {
  std::vector<std::string> needs;
  for (const ComponentPass& pass : component.passes) {
    const bool has_all = std::ranges::all_of(pass.inputs, [&](std::string_view name) { return given.contains(name); });
    if (has_all) return pass;
    needs.push_back(fmt::format("{} needs '{}'", pass.name, fmt::join(pass.inputs, "' and '")));
  }
  fail("the tensors given are those of no pass of {}: {}", component.name, fmt::join(needs, ", "));
}

std::int64_t parts_along(std::string_view option, std::int64_t pixels, std::int64_t of_part) {
  if (pixels % of_part != 0) fail_usage("{} is {}, expected a multiple of {}", option, pixels, of_part);
  return pixels / of_part;
}

const Shape& require_shape(const InputShapes& given, std::string_view name, std::initializer_list<Extent> expected) {
  const auto found = given.find(name);
  if (found == given.end()) fail("there is no tensor '{}'", name);
  const Shape& shape = found->second;
  bool agrees = shape.rank() == static_cast<int>(expected.size());
  std::vector<std::string> words;
  for (const Extent& extent : expected) {
    const auto axis = static_cast<int>(words.size());
    agrees = agrees && (extent.value == 0 ? shape[axis] > 0 : shape[axis] == extent.value);
    words.push_back(extent.value == 0 ? std::string(extent.name) : std::to_string(extent.value));
  }
  if (!agrees) fail("'{}' is {}, expected [{}], none of them 0", name, shape, fmt::join(words, ", "));
  return shape;
}

}  // namespace headroom
