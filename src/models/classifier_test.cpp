#include "models/classifier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "ir/interpreter.hpp"

namespace headroom {
namespace {

nlohmann::json tiny_config() {
  return {{"input", {{"shape", {"batch", 1, 2, 2}}}},
          {"feature_dim", 1},
          {"num_classes", 2},
          {"layers",
           {{{"op", "conv2d"},
             {"weight", "c.weight"},
             {"bias", "c.bias"},
             {"in_channels", 1},
             {"out_channels", 1},
             {"kernel", {1, 1}},
             {"stride", {1, 1}},
             {"padding", {0, 0}}},
            {{"op", "relu"}},
            {{"op", "mean"}},
            {{"op", "linear"}, {"weight", "f.weight"}, {"bias", "f.bias"}, {"in_features", 1}, {"out_features", 2}}}}};
}

HostTensor tensor(Shape shape, std::initializer_list<double> values) {
  HostTensor result(DType::kF32, shape);
  std::int64_t i = 0;
  for (const double value : values) result.set(i++, value);
  return result;
}

TEST(Classifier, ComputesFeaturesAndLogitsByHand) {
  const Graph graph = build_classifier(parse_classifier_config(tiny_config()), 1);
  const OracleResult result = interpret(graph, {{"images", tensor({1, 1, 2, 2}, {1, -1, 0.5, 0})}},
                                        {{"c.weight", tensor({1, 1, 1, 1}, {2})},
                                         {"c.bias", tensor({1}, {1})},
                                         {"f.weight", tensor({2, 1}, {10, -1})},
                                         {"f.bias", tensor({2}, {0, 3})}});
  // 2x + 1 is 3, -1, 2, 1; cut at zero the mean is 6 / 4.
  EXPECT_DOUBLE_EQ(result.outputs.at("features").at(0), 1.5);
  EXPECT_DOUBLE_EQ(result.outputs.at("logits").at(0), 15);
  EXPECT_DOUBLE_EQ(result.outputs.at("logits").at(1), 1.5);
}

TEST(Classifier, NamesTheLayerThatIsWrong) {
  nlohmann::json unknown = tiny_config();
  unknown["layers"][1]["op"] = "swish";
  EXPECT_THROW(static_cast<void>(parse_classifier_config(unknown)), Error);
  nlohmann::json no_features = tiny_config();
  no_features["layers"].erase(2);
  EXPECT_THROW(static_cast<void>(build_classifier(parse_classifier_config(no_features), 1)), Error);
}

}  // namespace
}  // namespace headroom
