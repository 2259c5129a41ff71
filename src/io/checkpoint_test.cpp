#include "io/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/files/file.hpp"
#include "base/files/hash.hpp"
#include "base/tensors/random.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

HostTensor counting(const Shape& shape, double first) {
  HostTensor tensor(DType::kF32, shape);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, first + static_cast<double>(i));
  return tensor;
}

const std::string kWeights = "diffusion_pytorch_model.safetensors";

class CheckpointFolder : public testing::Test {
 protected:
  void add_config(const fs::path& below = "") const { write_json(folder_ / below / "config.json", {{"depth", 2}}); }
  void add_weights(const fs::path& name, const std::map<std::string, HostTensor>& tensors) const {
    write_safetensors(folder_ / name, tensors);
  }
  void add_index(const json& weight_map) const {
    write_json(folder_ / (kWeights + ".index.json"), {{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}});
  }
  [[nodiscard]] Checkpoint open() const { return Checkpoint::open(folder_.path()); }
  [[nodiscard]] std::string error() const {
    return error_of([&] { (void)open(); });
  }
  [[nodiscard]] std::string path(const std::string& name = "") const {
    return name.empty() ? folder_.path().string() : (folder_ / name).string();
  }

  TempFolder folder_;
};

TEST_F(CheckpointFolder, OpensOneFile) {
  add_config();
  add_weights(kWeights, {{"b", counting({2, 3}, 0)}, {"a", counting({4}, 10)}});
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.config().at("depth").get<int>(), 2);
  EXPECT_EQ(checkpoint.folder(), folder_.path());
  EXPECT_EQ(checkpoint.description(), path());
  EXPECT_FALSE(checkpoint.is_random());
  EXPECT_THAT(checkpoint.tensors(),
              ElementsAre(TensorSpec{"a", DType::kF32, {4}}, TensorSpec{"b", DType::kF32, {2, 3}}));
  EXPECT_EQ(checkpoint.total_bytes(), 40U);
  EXPECT_EQ(checkpoint.parameter_count(), 10);
  EXPECT_TRUE(checkpoint.has("a"));
  EXPECT_FALSE(checkpoint.has("aa"));
  EXPECT_EQ(checkpoint.entry("b").shape, (Shape{2, 3}));
  EXPECT_EQ(checkpoint.read("a").at(3), 13.0);
  EXPECT_EQ(checkpoint.bytes("b").size(), 24U);
  checkpoint.release("b");
  EXPECT_EQ(checkpoint.read("b").at(5), 5.0);
  EXPECT_EQ(error_of([&] { (void)checkpoint.bytes("c"); }), path() + " has no tensor c");
}

TEST_F(CheckpointFolder, OpensModelSafetensors) {
  add_config();
  add_weights("model.safetensors", {{"a", counting({4}, 10)}});
  EXPECT_EQ(open().read("a").at(0), 10.0);
}

TEST_F(CheckpointFolder, OpensTheDenoiserOfAPipeline) {
  for (const std::string denoiser : {"unet", "transformer"}) {  // which comes first if both are there
    fs::create_directory(folder_ / denoiser);
    add_config(denoiser);
    add_weights(denoiser + "/" + kWeights, {{"a", counting({4}, 10)}});
    const Checkpoint checkpoint = open();
    EXPECT_EQ(checkpoint.folder(), folder_ / denoiser);
    EXPECT_EQ(checkpoint.read("a").at(0), 10.0);
  }
}

TEST_F(CheckpointFolder, CountsNoScalesAsParameters) {
  add_config();
  add_weights(kWeights, {{"a.weight", counting({4, 2}, 10)}, {"a.weight_scale", counting({4}, 1)}});
  EXPECT_EQ(open().parameter_count(), 8);
}

TEST_F(CheckpointFolder, OpensShards) {
  add_config();
  add_weights("s1.safetensors", {{"a", counting({4}, 10)}, {"unlisted", counting({1}, 0)}});
  add_weights("s2.safetensors", {{"b", counting({2, 3}, 0)}, {"c", counting({1}, 7)}});
  add_index({{"a", "s1.safetensors"}, {"b", "s2.safetensors"}, {"c", "s2.safetensors"}});
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.tensors().size(), 3U);
  EXPECT_FALSE(checkpoint.has("unlisted"));
  EXPECT_EQ(checkpoint.read("a").at(0), 10.0);
  EXPECT_EQ(checkpoint.read("b").at(5), 5.0);
  EXPECT_EQ(checkpoint.read("c").at(0), 7.0);
  EXPECT_EQ(checkpoint.parameter_count(), 11);
}

/// With the file names of transformers.
TEST_F(CheckpointFolder, OpensShardsOfModelSafetensors) {
  add_config();
  add_weights("model-00001-of-00002.safetensors", {{"a", counting({4}, 10)}});
  add_weights("model-00002-of-00002.safetensors", {{"b", counting({2, 3}, 0)}});
  write_json(folder_ / "model.safetensors.index.json",
             {{"weight_map", {{"a", "model-00001-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}}}});
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.tensors().size(), 2U);
  EXPECT_EQ(checkpoint.read("a").at(3), 13.0);
  EXPECT_EQ(checkpoint.read("b").at(5), 5.0);
}

TEST_F(CheckpointFolder, OpensAVariantThatIsAskedForOrTheOnlyOne) {
  add_config();
  add_weights("model.fp16.safetensors", {{"a", counting({4}, 10)}});
  EXPECT_THAT(open().notes(), ElementsAre(path() + " has only weights of the variant fp16: the weights are those of "
                                                   "model.fp16.safetensors"));
  EXPECT_EQ(open().read("a").at(0), 10.0);
  EXPECT_TRUE(has_weights(folder_.path()));
  add_weights("model.non_ema.safetensors", {{"a", counting({4}, 20)}});
  EXPECT_EQ(error(), path() + " has weights of several variants, fp16, non_ema: choose one, such as --variant fp16");
  EXPECT_EQ(Checkpoint::open(folder_.path(), "non_ema").read("a").at(0), 20.0);
  add_weights("model.safetensors", {{"a", counting({4}, 30)}});
  EXPECT_EQ(open().read("a").at(0), 30.0) << "files without a variant come first";
  EXPECT_THAT(open().notes(), ElementsAre());
  EXPECT_EQ(Checkpoint::open(folder_.path(), "fp16").read("a").at(0), 10.0);
  EXPECT_THAT(error_of([&] { (void)Checkpoint::open(folder_.path(), "fp8"); }),
              HasSubstr(" has no weights of the variant fp8 (such as diffusion_pytorch_model.fp8.safetensors); it "));
}

/// The name of an index now, and that of older files.
TEST_F(CheckpointFolder, OpensShardsOfAVariant) {
  for (const char* const index :
       {"diffusion_pytorch_model.safetensors.index.fp16.json", "diffusion_pytorch_model.fp16.safetensors.index.json"}) {
    add_config();
    add_weights("diffusion_pytorch_model.fp16-00001-of-00002.safetensors", {{"a", counting({4}, 10)}});
    add_weights("diffusion_pytorch_model.fp16-00002-of-00002.safetensors", {{"b", counting({2, 3}, 0)}});
    write_json(folder_ / index, {{"weight_map",
                                  {{"a", "diffusion_pytorch_model.fp16-00001-of-00002.safetensors"},
                                   {"b", "diffusion_pytorch_model.fp16-00002-of-00002.safetensors"}}}});
    EXPECT_EQ(open().read("b").at(5), 5.0);
    EXPECT_EQ(Checkpoint::open(folder_.path(), "fp16").read("a").at(3), 13.0);
    fs::remove(folder_ / index);
  }
}

/// diffusers leaves such a folder when it saves a whole file over shards: it removes the shards, but not their
/// index.
TEST_F(CheckpointFolder, TakesTheWholeFileWhereShardsAreNotThere) {
  add_config();
  add_weights(kWeights, {{"a", counting({4}, 10)}});
  add_index({{"a", "s1.safetensors"}, {"b", "s2.safetensors"}});
  const std::string note = path(kWeights + ".index.json") +
                           " names the shard s1.safetensors, which is not there: the " + "weights are those of " +
                           kWeights;
  EXPECT_THAT(open().notes(), ElementsAre(note));
  EXPECT_EQ(open().read("a").at(0), 10.0);
  // One of the shards is there.
  add_weights("s2.safetensors", {{"b", counting({1}, 3)}});
  EXPECT_THAT(open().notes(), ElementsAre(note));
  EXPECT_FALSE(open().has("b"));
  // The whole file is truncated.
  fs::resize_file(folder_ / kWeights, fs::file_size(folder_ / kWeights) - 1);
  EXPECT_THAT(error(), HasSubstr(path(kWeights) + ": tensor"));
}

/// The choice that diffusers and transformers make for such a folder.
TEST_F(CheckpointFolder, SaysWhichWeightsOfTwoItTakes) {
  add_config();
  EXPECT_TRUE(has_weights(folder_.path()) == false);
  add_weights(kWeights, {{"a", counting({4}, 10)}});
  EXPECT_TRUE(open().notes().empty());
  add_weights("s1.safetensors", {{"a", counting({4}, 20)}});
  add_index({{"a", "s1.safetensors"}});
  EXPECT_EQ(open().read("a").at(0), 20.0);
  EXPECT_THAT(open().notes(), ElementsAre(path() + " has " + kWeights + " and the shards of " + kWeights +
                                          ".index.json: the weights are those of the shards, as diffusers takes them"));
  fs::remove(folder_ / kWeights);
  EXPECT_TRUE(open().notes().empty());

  fs::remove(folder_ / (kWeights + ".index.json"));
  add_weights("model.safetensors", {{"a", counting({4}, 30)}});
  write_json(folder_ / "model.safetensors.index.json", {{"weight_map", {{"a", "s1.safetensors"}}}});
  EXPECT_EQ(open().read("a").at(0), 30.0);
  EXPECT_THAT(open().notes(),
              ElementsAre(path() + " has model.safetensors and the shards of model.safetensors.index.json: the " +
                          "weights are those of the whole file, as transformers takes them"));
}

/// A file with f32 tensors and a tensor of an unsupported type.
void add_unread(const fs::path& path, std::string_view name) {
  const std::string header = fmt::format(R"({{"a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},)"
                                         R"("{}":{{"dtype":"I16","shape":[2],"data_offsets":[4,8]}}}})",
                                         name);
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  write_file_atomically(path, file + header + std::string(8, '\0'));
}

TEST_F(CheckpointFolder, OpensWithATensorOfATypeThatIsNotRead) {
  add_config();
  add_unread(folder_ / kWeights, "b");
  const auto ignores_b = [](std::string_view name) { return name == "b"; };
  const auto check = [&](const Checkpoint& checkpoint) {
    EXPECT_THAT(checkpoint.tensors(), ElementsAre(TensorSpec{"a", DType::kF32, {1}}));
    EXPECT_THAT(checkpoint.unread(), ElementsAre("b"));
    EXPECT_EQ(checkpoint.read("a").at(0), 0.0);
    EXPECT_TRUE(checkpoint.has("b"));
    EXPECT_THAT(error_of([&] { (void)checkpoint.read("b"); }), HasSubstr("tensor \"b\" is I16, which is not read"));
    EXPECT_THAT(error_of([&] { (void)checkpoint.entry("b"); }), HasSubstr("tensor \"b\" is I16, which is not read"));
    const std::vector<TensorSpec> a{{"a", DType::kF32, {1}}};
    EXPECT_THAT(check_params(checkpoint, a), ElementsAre(path() + " has 1 tensor that the model does not know: b"));
    EXPECT_TRUE(check_params(checkpoint, a, ignores_b).empty());
    EXPECT_THAT(check_params(checkpoint, std::vector<TensorSpec>{a[0], {"b", DType::kF32, {2}}}),
                ElementsAre(path() + " has 1 tensor of a type that is not read: b"));
  };
  check(open());
  fs::rename(folder_ / kWeights, folder_ / "s1.safetensors");
  add_index({{"a", "s1.safetensors"}, {"b", "s1.safetensors"}});
  check(open());
}

TEST_F(CheckpointFolder, RefusesFilesThatAreNone) {
  add_config();
  add_weights(kWeights, {{"a", counting({4}, 10)}});
  const auto replace = [&](const std::string& name, const auto& make) {
    fs::rename(folder_ / name, folder_ / "kept");
    make(folder_ / name);
    const std::string refusal = error();
    fs::remove(folder_ / name);
    fs::rename(folder_ / "kept", folder_ / name);
    EXPECT_EQ(error(), "(no error)");
    return refusal;
  };
  for (const std::string& name : {std::string("config.json"), kWeights}) {
    EXPECT_EQ(replace(name, [](const fs::path& at) { ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0); }),
              "cannot read " + path(name) + ": it is a pipe, but a regular file was expected");
    EXPECT_EQ(replace(name, [](const fs::path& at) { fs::create_symlink("/dev/zero", at); }),
              "cannot read " + path(name) + ": it is a device, but a regular file was expected");
    EXPECT_EQ(replace(name, [](const fs::path& at) { fs::create_symlink(at, at); }),
              "cannot read " + path(name) + ": Too many levels of symbolic links");
    EXPECT_EQ(replace(name, [](const fs::path& at) { fs::create_symlink("blobs/1", at); }),
              "cannot read " + path(name) + ": it is a link to blobs/1, which is not there");
    EXPECT_EQ(replace(name, [](const fs::path& at) { fs::create_directory(at); }),
              "cannot read " + path(name) + ": it is a folder, but a regular file was expected");
  }
  // A link to a regular file counts as one.
  fs::rename(folder_ / "config.json", folder_ / "kept");
  fs::create_symlink("kept", folder_ / "config.json");
  EXPECT_EQ(error(), "(no error)");
  // Larger than any config.json, and sparse.
  fs::resize_file(folder_ / "kept", std::uint64_t{1} << 40);
  EXPECT_EQ(error(),
            "cannot read " + path("config.json") + ": it has 1099511627776 bytes, but at most 16777216 were expected");
}

/// Text from a file cannot add lines to a message.
TEST_F(CheckpointFolder, NamesInMessagesForgeNoLines) {
  add_config();
  const std::string forged = "x\nheadroom: all is well\x1b[2K\xE2\x80\xAE";
  add_weights(kWeights, {{forged, counting({4}, 10)}});
  const std::string shown = "x\\x0aheadroom: all is well\\x1b[2K\\u202e";
  EXPECT_EQ(error_of([&] { require_params(open(), {}); }),
            path() + " has 1 tensor that the model does not know: " + shown);
  EXPECT_EQ(error_of([&] { (void)open().entry("y\nz"); }), path() + " has no tensor y\\x0az");
  fs::rename(folder_ / kWeights, folder_ / forged);
  EXPECT_THAT(error(), testing::EndsWith("it holds config.json, " + shown));
}

TEST_F(CheckpointFolder, LongNamesAreShortened) {
  add_config();
  add_weights(kWeights, {{std::string(100'000, 'n'), counting({4}, 10)}});
  const std::string error = error_of([&] { require_params(open(), {}); });
  EXPECT_LT(error.size(), 500U);
  EXPECT_THAT(error, HasSubstr("nnn...nnn"));
}

TEST_F(CheckpointFolder, RefusesABrokenIndex) {
  add_config();
  const std::string index = path(kWeights + ".index.json");
  add_weights("s1.safetensors", {{"a", counting({4}, 10)}});
  add_index({{"a", "s1.safetensors"}, {"b", "s2.safetensors"}});
  EXPECT_THAT(error(), HasSubstr(index + " names the shard s2.safetensors, which is not there; "));
  add_index({{"a", "s1.safetensors"}, {"b", "s1.safetensors"}});
  EXPECT_EQ(error(), index + " says that b is in s1.safetensors, but it is not");
  for (const char* name : {"../s1.safetensors", "/etc/passwd", "..", ""}) {
    add_index({{"a", name}});
    EXPECT_EQ(error(), index + " maps a to \"" + name + "\", but the name of a file in the same folder was expected");
  }
  add_index({{"a", 3}});
  EXPECT_THAT(error(), HasSubstr("maps a to 3, but"));
  add_index(3);
  EXPECT_EQ(error(), "\"weight_map\" in " + index + " is not an object");
  write_json(index, json::object());
  EXPECT_EQ(error(), index + " has no \"weight_map\"");
}

TEST_F(CheckpointFolder, SaysWhatIsThereInstead) {
  EXPECT_EQ(error(), path() + " has no config.json, which a checkpoint folder needs; it holds nothing");
  for (const char* name : {"a.bin", "b.bin", "c.bin", "d.bin", "e.bin", "f.bin", "g.bin"}) {
    write_file_atomically(folder_ / name, "x");
  }
  fs::create_directory(folder_ / "a");
  EXPECT_EQ(error(), path() +
                         " has no config.json, which a checkpoint folder needs; "
                         "it holds a.bin, a/, b.bin, c.bin, d.bin and 3 more");
  add_config();
  EXPECT_EQ(
      error(),
      path() +
          " has no weights (diffusion_pytorch_model.safetensors or model.safetensors, the "
          ".index.json of their shards, a variant of these such as diffusion_pytorch_model.fp16.safetensors, or a GGUF "
          "file); it holds a.bin, a/, b.bin, c.bin, config.json and 4 more");
  EXPECT_EQ(error_of([&] { (void)Checkpoint::open(folder_ / "a.bin"); }),
            path("a.bin") + " is a file, but a checkpoint folder was expected");
  EXPECT_EQ(error_of([&] { (void)Checkpoint::open(folder_ / "none"); }),
            "there is no checkpoint folder " + path("none"));
}

TEST_F(CheckpointFolder, RefusesABrokenConfigOrFile) {
  write_file_atomically(folder_ / "config.json", "{");
  EXPECT_THAT(error(), HasSubstr(path("config.json") + " is not valid JSON at line 1, column 2"));
  write_file_atomically(folder_ / "config.json", "[]");
  EXPECT_EQ(error(), path("config.json") + " is not a JSON object");
  add_config();
  add_weights(kWeights, {{"a", counting({4}, 10)}});
  fs::resize_file(folder_ / kWeights, fs::file_size(folder_ / kWeights) - 1);
  EXPECT_EQ(error(), path(kWeights) +
                         ": tensor \"a\": data_offsets is [0,16], but an end of at most 15, the data bytes in the "
                         "file, was expected");
}

const std::vector<TensorSpec> kSpecs{{"proj.weight", DType::kF32, {1500, 2000}},  // large enough for several threads
                                     {"proj.bias", DType::kBF16, {4096}},
                                     {"norm.weight", DType::kF16, {4096}}};

struct Moments {
  double mean;
  double deviation;
};
Moments moments_of(const HostTensor& tensor) {
  double sum = 0, square = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    sum += tensor.at(i);
    square += tensor.at(i) * tensor.at(i);
  }
  const double n = static_cast<double>(tensor.numel());
  return {sum / n, std::sqrt(square / n - sum / n * (sum / n))};
}

fs::path golden_of_gguf(const char* name) { return fs::path(kSourceDir) / "tests/goldens/gguf" / name; }

// The same network in both formats, by gguf 0.19.
TEST(GgufCheckpoint, UnpacksWhatAnotherFileHoldsInF32) {
  const Checkpoint packed = Checkpoint::open(golden_of_gguf("clip-packed"));
  const Checkpoint plain = Checkpoint::open(golden_of_gguf("clip"));
  EXPECT_TRUE(std::ranges::equal(packed.tensors(), plain.tensors()));
  EXPECT_EQ(packed.total_bytes(), plain.total_bytes());
  EXPECT_EQ(packed.parameter_count(), plain.parameter_count());
  EXPECT_TRUE(packed.unread().empty());
  EXPECT_FALSE(packed.is_random());
  EXPECT_EQ(packed.description(), golden_of_gguf("clip-packed").native());
  for (const TensorSpec& tensor : plain.tensors()) {
    const std::span<const std::byte> expected = plain.bytes(tensor.name);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(std::ranges::equal(packed.bytes(tensor.name), expected)) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(packed.read(tensor.name).bytes(), expected)) << tensor.name;
      packed.release(tensor.name);
    }
    EXPECT_FALSE(packed.normal_stream(tensor.name));
  }
  const std::string name = "text_model.encoder.layers.0.mlp.fc2.weight";
  EXPECT_EQ(packed.entry(name).dtype, DType::kF32);
  EXPECT_EQ(packed.bytes(name).data(), packed.bytes(name).data()) << "kept until it is released";
}

TEST(GgufCheckpoint, ServesSeveralThreads) {
  const Checkpoint packed = Checkpoint::open(golden_of_gguf("clip-packed"));
  const Checkpoint plain = Checkpoint::open(golden_of_gguf("clip"));
  std::vector<std::jthread> threads;
  std::atomic<int> differing = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (const TensorSpec& tensor : plain.tensors())
        differing += std::ranges::equal(packed.bytes(tensor.name), plain.bytes(tensor.name)) ? 0 : 1;
    });
  threads.clear();
  EXPECT_EQ(differing, 0);
}

TEST_F(CheckpointFolder, TakesAGgufFileWhereThereIsNoOther) {
  add_config();
  fs::copy_file(golden_of_gguf("blocks.gguf"), folder_ / "a.gguf");
  EXPECT_TRUE(has_weights(folder_.path()));
  EXPECT_EQ(open().tensors().size(), 15U);
  fs::copy_file(folder_ / "a.gguf", folder_ / "b.gguf");
  EXPECT_EQ(error(), path() + " has 2 GGUF files, but one was expected: a.gguf, b.gguf");
  add_weights(kWeights, {{"a", counting({4}, 10)}});
  EXPECT_EQ(open().tensors().size(), 1U);
}

TEST_F(CheckpointFolder, RefusesPartsAndFormatsOfGgufThatAreNotRead) {
  const auto little = [](std::uint64_t value, std::size_t bytes) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((value >> (8 * i)) & 0xFFU);
    return text;
  };
  add_config();
  const std::string u16 = little(2, 4);
  write_file_atomically(folder_ / "a.gguf", "GGUF" + little(3, 4) + little(0, 8) + little(2, 8) +  //
                                                little(8, 8) + "split.no" + u16 + little(1, 2) +   //
                                                little(11, 8) + "split.count" + u16 + little(3, 2));
  EXPECT_EQ(error(), path("a.gguf") +
                         " is part 2 of 3 of a split model, which are not read: join them with `llama-gguf-split "
                         "--merge`");
  std::string file = "GGUF" + little(3, 4) + little(1, 8) + little(0, 8) +  // one tensor of MXFP4
                     little(1, 8) + "a" + little(1, 4) + little(32, 8) + little(39, 4) + little(0, 8);
  file.resize((file.size() + 31) / 32 * 32 + 17);
  write_file_atomically(folder_ / "a.gguf", file);
  const Checkpoint checkpoint = open();
  EXPECT_THAT(checkpoint.unread(), ElementsAre("a"));
  EXPECT_THAT(error_of([&] { (void)checkpoint.bytes("a"); }),
              HasSubstr("a.gguf: tensor \"a\" is MXFP4, which is not read; expected one of F32, F16, Q4_0"));
}

TEST(RandomCheckpoint, IsDescribedLikeAnyOther) {
  const Checkpoint checkpoint = Checkpoint::random({{"depth", 2}}, kSpecs, 7);
  EXPECT_TRUE(checkpoint.is_random());
  EXPECT_TRUE(checkpoint.folder().empty());
  EXPECT_EQ(checkpoint.description(), "random weights (seed 7)");
  EXPECT_EQ(checkpoint.config().at("depth").get<int>(), 2);
  EXPECT_EQ(checkpoint.tensors().front().name, "norm.weight");
  EXPECT_EQ(checkpoint.parameter_count(), 3000000 + 8192);
  EXPECT_EQ(checkpoint.total_bytes(), 12000000U + 16384U);
}

TEST(RandomCheckpoint, IsNormalAroundZeroAndGainsAroundOne) {
  const Checkpoint checkpoint = Checkpoint::random({}, kSpecs, 7);
  const Moments weight = moments_of(checkpoint.read("proj.weight"));
  EXPECT_NEAR(weight.mean, 0.0, 4 * 0.02 / std::sqrt(3e6));
  EXPECT_NEAR(weight.deviation, 0.02, 4 * 0.02 / std::sqrt(6e6));
  const Moments bias = moments_of(checkpoint.read("proj.bias"));
  EXPECT_NEAR(bias.mean, 0.0, 4 * 0.02 / 64);
  EXPECT_NEAR(bias.deviation, 0.02, 0.001);
  const Moments gain = moments_of(checkpoint.read("norm.weight"));
  EXPECT_NEAR(gain.mean, 1.0, 4 * 0.02 / 64);
  EXPECT_NEAR(gain.deviation, 0.02, 0.001);
}

TEST(RandomCheckpoint, DependsOnSeedAndNameOnly) {
  const Checkpoint checkpoint = Checkpoint::random({}, kSpecs, 7);
  const HostTensor weight = checkpoint.read("proj.weight");
  std::vector<float> expected(3000000);
  fill_normal(expected, 7, Hasher().add("proj.weight").digest());
  for (float& value : expected) value = 0.0F + 0.02F * value;
  EXPECT_TRUE(std::ranges::equal(weight.as<float>(), expected));

  const Checkpoint other_seed = Checkpoint::random({}, kSpecs, 8);
  EXPECT_FALSE(std::ranges::equal(other_seed.read("proj.weight").bytes(), weight.bytes()));
  const Checkpoint alone = Checkpoint::random({}, {kSpecs[1]}, 7);
  EXPECT_TRUE(std::ranges::equal(alone.read("proj.bias").bytes(), checkpoint.read("proj.bias").bytes()));
  const Checkpoint wide = Checkpoint::random({}, {{"proj.bias", DType::kF32, {64, 64}}}, 7);
  EXPECT_TRUE(
      std::ranges::equal(convert(wide.read("proj.bias"), DType::kBF16).bytes(), checkpoint.read("proj.bias").bytes()));
}

TEST(RandomCheckpoint, KeepsBytesUntilReleased) {
  const Checkpoint checkpoint = Checkpoint::random({}, kSpecs, 7);
  const auto first = checkpoint.bytes("proj.bias");
  EXPECT_EQ(checkpoint.bytes("proj.bias").data(), first.data());
  const HostTensor copy = checkpoint.read("proj.bias");
  EXPECT_TRUE(std::ranges::equal(first, copy.bytes()));
  checkpoint.release("proj.bias");
  checkpoint.release("proj.bias");
  EXPECT_TRUE(std::ranges::equal(checkpoint.bytes("proj.bias"), copy.bytes()));
}

TEST(RandomCheckpoint, ServesSeveralThreads) {
  const Checkpoint checkpoint = Checkpoint::random({}, kSpecs, 7);
  const std::byte* seen[4] = {};
  {
    std::vector<std::jthread> threads;
    for (auto& address : seen) threads.emplace_back([&] { address = checkpoint.bytes("proj.weight").data(); });
  }
  EXPECT_THAT(seen, testing::Each(seen[0]));
}

TEST(RandomCheckpoint, RefusesWhatHasNoRandomValues) {
  EXPECT_EQ(error_of([] {
              (void)Checkpoint::random({}, {{"ids", DType::kI64, {3}}}, 1);
            }),
            "cannot make random weights for ids: its dtype is i64, but a floating-point one was expected");
  EXPECT_EQ(error_of([] {
              (void)Checkpoint::random({}, {kSpecs[0], kSpecs[0]}, 1);
            }),
            "cannot make random weights: two tensors are called proj.weight");
}

TEST(CheckParams, IsSilentWhereAllAgrees) {
  const Checkpoint checkpoint = Checkpoint::random({}, kSpecs, 7);
  std::vector<TensorSpec> expected = kSpecs;
  expected[0].dtype = DType::kBF16;  // dtypes may differ
  EXPECT_TRUE(check_params(checkpoint, expected).empty());
  EXPECT_EQ(error_of([&] { require_params(checkpoint, expected); }), "(no error)");
}

TEST(CheckParams, ReportsEachKindOfDifference) {
  std::vector<TensorSpec> there{{"a", DType::kF32, {2, 3}}, {"b", DType::kF32, {4}}, {"stray", DType::kF32, {1}}};
  const Checkpoint checkpoint = Checkpoint::random({}, there, 7);
  std::vector<TensorSpec> expected{{"a", DType::kF32, {3, 2}}, {"b", DType::kF32, {4}}};
  for (int i = 0; i < 7; ++i) expected.push_back({fmt::format("block.{}", i), DType::kF32, {1}});
  EXPECT_THAT(check_params(checkpoint, expected),
              ElementsAre("random weights (seed 7) lacks 7 tensors that the model needs: block.0, block.1, block.2, "
                          "block.3, block.4 and 2 more",
                          "random weights (seed 7) has 1 tensor that the model does not know: stray",
                          "random weights (seed 7) has 1 tensor whose shape is not the model's: a is [2, 3] instead of "
                          "[3, 2]"));
  EXPECT_THAT(error_of([&] { require_params(checkpoint, expected); }), HasSubstr("2 more; random weights"));
}

}  // namespace
}  // namespace headroom
