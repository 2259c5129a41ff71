// `headroom inspect` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text/json.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class InspectTest : public ProgramTest {
 protected:
  static std::string golden(const std::string& path) { return std::string(kSourceDir) + "/tests/goldens/" + path; }
};

TEST_F(InspectTest, ShowsAFolderAndAFile) {
  const Outcome folder = headroom("inspect " + golden("vae/stable-diffusion"));
  EXPECT_EQ(folder.code, 0) << folder.err;
  EXPECT_EQ(folder.err, "");
  EXPECT_THAT(folder.out, AllOf(HasSubstr("diffusion_pytorch_model.safetensors\nsafetensors, "),
                                HasSubstr("Stable Diffusion autoencoder  diffusers"), HasSubstr("\nlargest tensors ")));
  const Outcome file = headroom("inspect --json --largest 1 " + golden("gguf/blocks.gguf"));
  EXPECT_EQ(file.code, 0) << file.err;
  const json shown = parse_json(file.out, "output");
  EXPECT_EQ(shown["format"], "GGUF version 3");
  EXPECT_EQ(shown["dtypes"].size(), 15U);
  EXPECT_EQ(shown["largest"].size(), 1U);
  EXPECT_EQ(shown["metadata"]["type.string"], "a \xC3\xA9 \"b\"\n");
}

TEST_F(InspectTest, ListsTheNetworksOfAPipelinesFolder) {
  const Outcome tables = headroom("inspect " + golden("pipelines/sdxl"));
  EXPECT_EQ(tables.code, 0) << tables.err;
  EXPECT_THAT(tables.out,
              AllOf(HasSubstr("part"), HasSubstr("\ntext_encoder_2"), HasSubstr("\nunet"), HasSubstr("\nvae")));
  const Outcome file = headroom("inspect --json " + golden("pipelines/sdxl"));
  EXPECT_EQ(file.code, 0) << file.err;
  const json parts = parse_json(file.out, "output").at("parts");
  EXPECT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts.at("vae").at("networks").at(0).at("network"), "Stable Diffusion autoencoder");
}

TEST_F(InspectTest, ShowsTheConfigurationOfAFile) {
  const Outcome shown = headroom("inspect --json " + golden("single_files/flux-dev.safetensors"));
  EXPECT_EQ(shown.code, 0) << shown.err;
  const json listing = parse_json(shown.out, "output");
  const auto value_of = [&](const char* part, const char* key) {
    for (const json& each : listing.at("configuration"))
      if (each.at("part") == part && each.at("key") == key) return each;
    return json();
  };
  EXPECT_EQ(value_of("transformer", "num_layers").at("value"), 2);
  EXPECT_EQ(value_of("transformer", "num_layers").at("from"), "names and shapes");
  EXPECT_EQ(value_of("scheduler", "shift").at("value"), 3.0);
  EXPECT_EQ(value_of("scheduler", "shift").at("from"), "FLUX.1-dev");
  EXPECT_THAT(listing.at("notes").dump(), HasSubstr("lacks 5 parts of a FluxPipeline: text_encoder (CLIPTextModel, "));
  const Outcome tables = headroom("inspect " + golden("single_files/ae.safetensors"));
  EXPECT_THAT(tables.out, AllOf(HasSubstr("vae.scaling_factor"), HasSubstr("0.3611")));
}

TEST_F(InspectTest, RefusesInOneSentence) {
  const Outcome missing = headroom("inspect " + file("none"));
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(missing.err, "headroom: there is no file or folder " + file("none") + "\n");
  write_file_atomically(file("a.gguf"), std::string("GGUF\3\0\0\0", 8) + std::string(8, '\xFF') + std::string(8, '\0'));
  const Outcome broken = headroom("inspect " + file("a.gguf"));
  EXPECT_EQ(broken.code, 1);
  EXPECT_EQ(broken.err, "headroom: " + file("a.gguf") +
                            ": the header has 18446744073709551615 tensors, but at most 262144 are read\n");
  EXPECT_EQ(headroom("inspect").code, 2);
  EXPECT_THAT(headroom("inspect x --largest 01").err, StartsWith("headroom: --largest"));
}

}  // namespace
}  // namespace headroom
