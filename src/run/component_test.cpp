#include "run/component.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ComponentFolder : public testing::Test {
 protected:
  /// The error for a text encoder of so many layers whose weights are one tensor.
  std::string refusal(int layers) {
    write_json(folder_ / "config.json", {{"architectures", {"CLIPTextModel"}},
                                         {"vocab_size", 8},
                                         {"hidden_size", 8},
                                         {"intermediate_size", 8},
                                         {"num_hidden_layers", layers},
                                         {"num_attention_heads", 1},
                                         {"max_position_embeddings", 4}});
    write_safetensors(folder_ / "model.safetensors",
                      {{"text_model.embeddings.token_embedding.weight", random_f32({8, 8}, 1)}});
    return error_of([&] { static_cast<void>(open_component(folder_.path().string())); });
  }

  TempFolder folder_;
};

TEST_F(ComponentFolder, WithoutAFewTensorsIsRefusedByTheirNumber) {
  EXPECT_THAT(refusal(2), AllOf(HasSubstr(" lacks 35 tensors that the model needs: "), HasSubstr(" and 30 more")));
}

TEST_F(ComponentFolder, OfFarMoreLayersThanItsWeightsIsRefusedWhileItsGraphIsBuilt) {
  EXPECT_THAT(refusal(4000), AllOf(StartsWith(folder_.path().string() + ": config.json: "),
                                   HasSubstr("needs more than 1000 tensors that the weights lack, text_model.e")));
}

}  // namespace
}  // namespace headroom
