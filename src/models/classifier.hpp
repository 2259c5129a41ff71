#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// One layer of a plain convolutional classifier, under the names of its config.json.
struct ClassifierLayer {
  std::string op;  ///< conv2d, relu, max_pool2d, mean (over height and width: the features) or linear (the logits)
  std::string weight;
  std::string bias;
  std::int64_t in = 0;  ///< channels or features
  std::int64_t out = 0;
  std::int64_t kernel = 0;  ///< side of the square window
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

/// A classifier that judges images: a chain of layers from pixels to features to logits.
struct ClassifierConfig {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<ClassifierLayer> layers;
  std::int64_t feature_dim = 0;
  std::int64_t num_classes = 0;
};

/// Reads the classifier's config.json. Throws Error that names the layer and its defect.
[[nodiscard]] ClassifierConfig parse_classifier_config(const nlohmann::json& config);

/// The classifier on `images` [batch, channels, height, width] f32 in [-1, 1]: outputs `features` [batch, feature_dim],
/// the means of the last feature maps, and `logits` [batch, num_classes]. Its params are f32.
[[nodiscard]] Graph build_classifier(const ClassifierConfig& config, std::int64_t batch);

}  // namespace headroom
