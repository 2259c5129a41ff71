// Model folders that hold what no model does: each command ends with one sentence that names it, and reads and copies
// nothing that lies elsewhere.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class HostileFolder : public ProgramTest {
 protected:
  HostileFolder() { fs::copy(fs::path(kSourceDir) / "models/fashion-flux", model_, fs::copy_options::recursive); }
  /// The one line that a command ends with, which is an error of the folder's.
  std::string refusal(const std::string& command) const {
    // A pipe or device that is read would never end.
    const Outcome outcome = run("timeout 60 " + std::string(kHeadroomBinary) + " " + command);
    EXPECT_EQ(outcome.code, 1) << command << ": " << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("headroom: "));
    EXPECT_THAT(outcome.err, testing::Not(HasSubstr("internal error")));
    return outcome.err;
  }
  std::string refusal_of_model() const { return refusal("plan " + network_.string() + " --quiet"); }
  static void replace(const fs::path& path, const fs::path& target) {
    fs::remove_all(path);
    fs::create_symlink(target, path);
  }

  fs::path model_ = folder() / "model";
  fs::path network_ = model_ / "transformer";
};

TEST_F(HostileFolder, OfSpecialFilesIsRefused) {
  const std::string weights = "diffusion_pytorch_model.safetensors";
  for (const std::string& name : {std::string("config.json"), weights}) {
    const std::string path = (network_ / name).string();
    fs::rename(path, folder() / "kept");
    fs::create_symlink("/dev/zero", path);
    EXPECT_THAT(refusal_of_model(), HasSubstr(path + ": it is a device, but a regular file was expected"));
    replace(path, name);
    EXPECT_THAT(refusal_of_model(), HasSubstr(path + ": Too many levels of symbolic links"));
    replace(path, "nothing");
    EXPECT_THAT(refusal_of_model(), HasSubstr(path + ": it is a link to nothing, which is not there"));
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(refusal_of_model(), HasSubstr(path + ": it is a pipe, but a regular file was expected"));
    fs::remove(path);
    fs::rename(folder() / "kept", path);
  }
  fs::resize_file(network_ / "config.json", std::uint64_t{1} << 40);
  EXPECT_THAT(refusal_of_model(), HasSubstr("1099511627776 bytes, but at most 16777216 were expected"));
  fs::create_symlink("loop", folder() / "loop");
  EXPECT_THAT(refusal("plan " + file("loop") + " -q"), HasSubstr("loop: Too many levels of symbolic links"));
}

TEST_F(HostileFolder, IsNotConvertedWithWhatItsLinksPointTo) {
  write_file_atomically(folder() / "secret", "secret");
  const std::string command = "convert " + model_.string() + " --quiet --out " + file("out");
  replace(model_ / "README.md", folder() / "secret");
  EXPECT_THAT(refusal(command), HasSubstr("README.md is a link to " + file("secret") + ", which is not in "));
  replace(model_ / "README.md", "..");
  EXPECT_THAT(refusal(command), HasSubstr("README.md is a link to " + folder().string() + ", which is not in "));
  replace(model_ / "README.md", ".");
  EXPECT_THAT(refusal(command), HasSubstr("README.md is a link to a folder"));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder()))
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("model", "secret", "stderr")) << "nothing is left";
  replace(model_ / "README.md", "model_index.json");
  const Outcome outcome = headroom("convert " + model_.string() + " --quiet --out " + (model_ / "int8").string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(fs::is_symlink(model_ / "int8/README.md"));
  EXPECT_EQ(read_file(model_ / "int8/README.md"), read_file(model_ / "model_index.json"));
  EXPECT_FALSE(fs::exists(model_ / "int8/int8")) << "the copy in itself";
}

TEST_F(HostileFolder, ForgesNoLinesOfMessages) {
  const std::string name = "x\nheadroom: all is well\x1b[2K";
  SafetensorsMetadata none;
  write_safetensors(network_ / "diffusion_pytorch_model.safetensors", {{name, HostTensor(DType::kF32, Shape{1})}},
                    none);
  EXPECT_THAT(refusal_of_model(), HasSubstr("x\\x0aheadroom: all is well\\x1b[2K"));
  fs::rename(network_, folder() / name);
  EXPECT_THAT(refusal("plan '" + (folder() / name).string() + "' -q"),
              HasSubstr("x\\x0aheadroom: all is well\\x1b[2K"));
}

TEST_F(HostileFolder, OfAnotherLibrarysWeightsSaysWhose) {
  json config = read_json(network_ / "config.json");
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"_load_in_4bit", true}};
  write_json(network_ / "config.json", config);
  write_safetensors(network_ / "diffusion_pytorch_model.safetensors",
                    {{"x_embedder.weight", HostTensor(DType::kU8, Shape{64, 1})}});
  EXPECT_THAT(refusal_of_model(), HasSubstr("was quantized by bitsandbytes ("));
  fs::remove(network_ / "config.json");
  fs::rename(network_ / "diffusion_pytorch_model.safetensors", network_ / "flux1-dev-Q4_0.gguf");
  EXPECT_THAT(refusal_of_model(), HasSubstr("has no config.json, which a checkpoint folder needs; it holds flux1-"));
  EXPECT_THAT(refusal("plan " + (network_ / "flux1-dev-Q4_0.gguf").string() + " -q"),
              HasSubstr("holds no network that can be opened from a file alone; it holds not recognized"));
  write_json(network_ / "config.json", config);
  EXPECT_THAT(refusal_of_model(), HasSubstr("flux1-dev-Q4_0.gguf is not a GGUF file: it begins with"));
}

TEST_F(HostileFolder, ThatWasSavedOverSaysWhatItTakes) {
  write_json(network_ / "diffusion_pytorch_model.safetensors.index.json",
             {{"weight_map", {{"x_embedder.weight", "diffusion_pytorch_model-00001-of-00002.safetensors"}}}});
  const Outcome outcome = headroom("plan " + network_.string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("names the shard diffusion_pytorch_model-00001-of-00002.safetensors, which is not "
                                     "there: the weights are those of diffusion_pytorch_model.safetensors\n"));
}

}  // namespace
}  // namespace headroom
