#include "models/classifier.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "ir/builder.hpp"

namespace headroom {
namespace {

constexpr const char* kFile = "classifier config.json";
constexpr std::int64_t kMaxClassifierExtent = 1 << 16;

/// layer[key] as one number: a square window may be written as [3, 3].
std::int64_t get_side(const nlohmann::json& layer, const char* key, const std::string& context) {
  const std::vector<std::int64_t> sides = get_int_array(layer, key, context);
  if (sides.size() != 2 || sides[0] != sides[1] || sides[0] < 0 || sides[0] > kMaxClassifierExtent)
    fail("{}: {} is {}, expected two equal sizes", context, key, layer.at(key).dump());
  return sides[0];
}

std::int64_t get_extent(const nlohmann::json& json, const char* key, const std::string& context) {
  const std::int64_t extent = get_int(json, key, context);
  if (extent < 1 || extent > kMaxClassifierExtent)
    fail("{}: {} is {}, expected 1 to {}", context, key, extent, kMaxClassifierExtent);
  return extent;
}

ClassifierLayer parse_layer(const nlohmann::json& json, const std::string& context) {
  ClassifierLayer layer{.op = get_string(json, "op", context), .weight = {}, .bias = {}};
  if (layer.op == "relu" || layer.op == "mean") return layer;
  if (layer.op == "max_pool2d") {
    layer.kernel = get_side(json, "kernel", context);
    if (layer.kernel < 1 || get_side(json, "stride", context) != layer.kernel)
      fail("{}: expected a stride equal to the window", context);
    return layer;
  }
  if (layer.op != "conv2d" && layer.op != "linear") fail("{}: unknown op '{}'", context, layer.op);
  layer.weight = get_string(json, "weight", context);
  layer.bias = get_string(json, "bias", context);
  const bool conv = layer.op == "conv2d";
  layer.in = get_extent(json, conv ? "in_channels" : "in_features", context);
  layer.out = get_extent(json, conv ? "out_channels" : "out_features", context);
  if (conv) {
    layer.kernel = get_side(json, "kernel", context);
    layer.stride = get_side(json, "stride", context);
    layer.padding = get_side(json, "padding", context);
    if (layer.kernel < 1 || layer.stride < 1) fail("{}: expected a kernel and a stride of at least 1", context);
  }
  return layer;
}

}  // namespace

ClassifierConfig parse_classifier_config(const nlohmann::json& config) {
  ClassifierConfig classifier;
  const std::vector<std::int64_t> shape = [&] {
    const nlohmann::json& dims = get(get(config, "input", kFile), "shape", kFile);
    std::vector<std::int64_t> extents;
    for (const auto& dim : dims)
      if (dim.is_number_integer()) extents.push_back(dim.get<std::int64_t>());  // the first is the word "batch"
    if (!dims.is_array() || dims.size() != 4 || extents.size() != 3)
      fail("{}: input shape is {}, expected [\"batch\", channels, height, width]", kFile, dims.dump());
    return extents;
  }();
  for (const std::int64_t extent : shape)
    if (extent < 1 || extent > kMaxClassifierExtent)
      fail("{}: input shape has {}, expected 1 to {}", kFile, extent, kMaxClassifierExtent);
  classifier.channels = shape[0];
  classifier.height = shape[1];
  classifier.width = shape[2];
  classifier.feature_dim = get_extent(config, "feature_dim", kFile);
  classifier.num_classes = get_extent(config, "num_classes", kFile);
  const nlohmann::json& layers = get(config, "layers", kFile);
  if (!layers.is_array() || layers.empty()) fail("{}: layers is {}, expected a list", kFile, layers.type_name());
  for (std::size_t i = 0; i < layers.size(); ++i)
    classifier.layers.push_back(parse_layer(layers[i], fmt::format("{}: layer {}", kFile, i)));
  return classifier;
}

Graph build_classifier(const ClassifierConfig& config, std::int64_t batch) {
  Graph graph("classifier");
  Builder b(graph);
  ValueId x = graph.add_input("images", TensorType{.shape = {batch, config.channels, config.height, config.width}});
  const auto param = [&](const std::string& name, Shape shape) { return b.param(name, TensorType{.shape = shape}); };
  for (const ClassifierLayer& layer : config.layers) {
    if (layer.op == "conv2d") {
      x = b.conv2d(x, param(layer.weight, {layer.out, layer.in, layer.kernel, layer.kernel}),
                   param(layer.bias, {layer.out}), Builder::evenly(layer.stride, layer.padding));
    } else if (layer.op == "relu") {
      x = b.relu(x);
    } else if (layer.op == "max_pool2d") {
      x = b.max_pool2d(x, layer.kernel);
    } else if (layer.op == "mean") {
      x = b.mean(x, {2, 3});  // [batch, channels, height, width] -> [batch, channels]
      graph.add_output("features", x);
    } else {
      x = b.linear(x, param(layer.weight, {layer.out, layer.in}), {.bias = param(layer.bias, {layer.out})});
    }
  }
  graph.add_output("logits", x);
  const auto expect = [&](const char* output, std::int64_t width) {
    for (const Output& found : graph.outputs())
      if (found.name == output && graph.type(found.value).shape == Shape{batch, width}) return;
    fail("{}: the layers give no {} of width {}", kFile, output, width);
  };
  expect("features", config.feature_dim);
  expect("logits", config.num_classes);
  return graph;
}

}  // namespace headroom
