// Loading a checkpoint of 1 GiB holds no more than the folded weights, the largest of them once more, and 64 MiB.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "measure/probes/resident_memory.hpp"
#include "models/transformers/flux.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

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

/// All weights are zeros, in a file with holes where they are: what is measured is memory, and nothing is written to
/// the disk for it.
void write_checkpoint(const fs::path& folder) {
  write_json(folder / "config.json", large_config());
  const Graph graph = forward_graph(large_config());
  nlohmann::json header;
  std::uint64_t offset = 0;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) {
    const std::uint64_t end = offset + graph.type(param).bytes();
    const Shape& shape = graph.type(param).shape;
    header[graph.value(param).name] = {{"dtype", "BF16"}, {"shape", shape.dims()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  const fs::path path = folder / "diffusion_pytorch_model.safetensors";
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length)) << text << std::flush;
  ASSERT_TRUE(file.good());
  fs::resize_file(path, sizeof(length) + length + offset);
}

struct Load {
  std::size_t folded = 0;           ///< bytes of all weights that the program reads
  std::size_t backend_peak = 0;     ///< bytes that the backend handed out, at most
  std::uint64_t resident_peak = 0;  ///< bytes that the process held, at most, over what it held before; 0: not known
};

/// Maps the checkpoint anew and loads it. What an earlier load left in the C library's hands or mapped of the file
/// would hide as much of this one's peak.
Load load_weights(const Program& program, const fs::path& folder) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const Component model = open_component(folder.string());
  EXPECT_GE(model.checkpoint.total_bytes(), 1024 * kMebibyte);
  WeightStore weights(*backend, model.checkpoint);
  malloc_trim(0);
  const bool is_resident_known = reset_peak_resident();
  const std::optional<ResidentMemory> before = resident_memory();
  weights.load(program);
  Load load{.folded = weights.bytes(), .backend_peak = backend->memory_use().peak};
  const std::optional<ResidentMemory> after = resident_memory();
  if (is_resident_known && before && after) load.resident_peak = after->peak_bytes - before->now_bytes;
  return load;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / kMebibyte; }

TEST(WeightFolding, PeaksAtTheFoldedWeightsAndTheLargestOfThem) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(write_checkpoint(folder.path()));
  const DeviceTarget target = make_backend(DeviceKind::kCpu)->properties().target;
  for (const char* switches : {"", "arena,fuse"}) {
    SCOPED_TRACE(*switches == '\0' ? "baseline" : switches);
    const Compiled compiled = compile(forward_graph(large_config()), SwitchSet::parse(switches), target);
    std::size_t largest = 0;
    for (const WeightUse& use : compiled.program->weights) largest = std::max(largest, use.bytes);
    // How much of the file the system maps beyond what is read differs from time to time: one load of three must fit.
    Load load;
    for (int attempt = 0; attempt < 3; ++attempt) {
      load = load_weights(*compiled.program, folder.path());
      std::printf("folded %.1f MiB, the largest %.1f MiB: peak %.1f MiB in the backend, %.1f MiB resident\n",
                  mebibytes(load.folded), mebibytes(largest), mebibytes(load.backend_peak),
                  mebibytes(load.resident_peak));
      if (load.resident_peak <= load.folded + largest + 64 * kMebibyte) break;
    }
    EXPECT_GE(load.folded, 2048 * kMebibyte);  // bf16 folded to f32
    EXPECT_LE(load.backend_peak, load.folded + largest);
    if (load.resident_peak == 0) continue;  // some systems do not let a process reset its peak
    EXPECT_GE(load.resident_peak, load.folded) << "the measurement missed the weights";
    EXPECT_LE(load.resident_peak, load.folded + largest + 64 * kMebibyte);
  }
}

}  // namespace
}  // namespace headroom
