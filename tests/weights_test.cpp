// Loading a checkpoint of 1 GiB holds no more than the folded weights, the largest of them once more, and 64 MiB.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json.hpp"
#include "base/random.hpp"
#include "io/safetensors.hpp"
#include "measure/resident_memory.hpp"
#include "run/compile.hpp"
#include "run/model.hpp"
#include "run/session.hpp"
#include "run/weight_store.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

/// A FLUX of 512 M parameters: 1 GiB in bf16.
nlohmann::json large_config() {
  nlohmann::json config = flux_dev_config();
  config["num_attention_heads"] = 16;
  config["attention_head_dim"] = 64;
  config["axes_dims_rope"] = {8, 28, 28};
  config["num_layers"] = 8;
  config["num_single_layers"] = 15;
  config["joint_attention_dim"] = 1024;
  return config;
}

Graph forward_graph(const nlohmann::json& config) {
  const ParamSource params{.dtype = [](std::string_view) { return DType::kBF16; }, .compute = DType::kF32};
  return build_flux_forward(parse_flux_config(config), {.batch = 1, .image_tokens = 16, .text_tokens = 8}, params);
}

void write_checkpoint(const fs::path& folder) {
  write_json(folder / "config.json", large_config());
  const Graph graph = forward_graph(large_config());
  std::vector<TensorSpec> specs;
  for (const ValueId param : graph.values_of(ValueKind::kParam))
    specs.push_back({.name = graph.value(param).name, .dtype = DType::kBF16, .shape = graph.type(param).shape});
  SafetensorsWriter writer(folder / "diffusion_pytorch_model.safetensors", specs);
  // One block of random weights serves all: what is measured is memory, not what the model draws.
  std::vector<float> normals(1 << 20);
  fill_normal(normals, 0, 0);
  std::vector<std::uint16_t> block(normals.size());
  std::ranges::transform(normals, block.begin(), [](float value) { return float_to_bf16(0.02F * value); });
  for (const TensorSpec& spec : specs)
    for (std::uint64_t done = 0; done < spec.size_bytes();) {
      const auto part = std::min<std::uint64_t>(spec.size_bytes() - done, block.size() * sizeof(std::uint16_t));
      writer.write(spec.name, std::as_bytes(std::span(block)).first(part));
      done += part;
    }
  writer.commit();
}

TEST(WeightFolding, PeaksAtTheFoldedWeightsAndTheLargestOfThem) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("headroom-weights-{}", std::random_device()());
  fs::create_directories(folder);
  write_checkpoint(folder);
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const Model model = open_model(folder.string());
  EXPECT_GE(model.checkpoint.total_bytes(), 1024 * kMebibyte);
  for (const char* switches : {"", "arena,fuse"}) {
    const Compiled compiled =
        compile(forward_graph(large_config()), SwitchSet::parse(switches), backend->properties().target);
    std::size_t largest = 0;
    for (const WeightUse& use : compiled.program->weights) largest = std::max(largest, use.bytes);
    // How much of the file the system maps beyond what is read differs from time to time: one load of three must fit.
    std::uint64_t peak = 0, folded = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      WeightStore weights(*backend, model.checkpoint);
      if (!reset_peak_resident()) GTEST_SKIP() << "this system does not let a process reset its peak";
      const std::uint64_t before = resident_memory()->now_bytes;
      weights.load(*compiled.program);
      peak = resident_memory()->peak_bytes - before;
      folded = weights.bytes();
      std::printf("%s: peak %.1f MiB over %.1f MiB of folded weights, largest %.1f MiB\n",
                  *switches == '\0' ? "baseline" : switches, static_cast<double>(peak) / kMebibyte,
                  static_cast<double>(folded) / kMebibyte, static_cast<double>(largest) / kMebibyte);
      if (peak <= folded + largest + 64 * kMebibyte) break;
    }
    EXPECT_GE(folded, 2048 * kMebibyte);  // bf16 folded to f32
    EXPECT_GE(peak, folded) << "the measurement missed the weights";
    EXPECT_LE(peak, folded + largest + 64 * kMebibyte);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace headroom
