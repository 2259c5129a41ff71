#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// The parts of a param's name: the tensor's name in a checkpoint, prefixed by the checkpoint's name if it has one,
/// as in "vae:decoder.conv_in.weight".
struct ParamName {
  std::string_view checkpoint;  ///< empty for the checkpoint without a name
  std::string_view tensor;
};

inline constexpr char kAfterCheckpoint = ':';

[[nodiscard]] inline ParamName split_param_name(std::string_view param) {
  const std::size_t end = param.find(kAfterCheckpoint);
  if (end == std::string_view::npos) return {.checkpoint = {}, .tensor = param};
  return {.checkpoint = param.substr(0, end), .tensor = param.substr(end + 1)};
}

[[nodiscard]] inline std::string join_param_name(const ParamName& name) {
  if (name.checkpoint.empty()) return std::string(name.tensor);
  return std::string(name.checkpoint) + kAfterCheckpoint + std::string(name.tensor);
}

/// The param with the scale of the activations that a weight in FP8 is multiplied with: "x.input_scale" of "x.weight".
[[nodiscard]] inline std::string input_scale_name(std::string_view weight) {
  constexpr std::string_view kWeight = "weight";
  if (weight.ends_with(kWeight)) weight.remove_suffix(kWeight.size());
  return std::string(weight) + "input_scale";
}

}  // namespace headroom
