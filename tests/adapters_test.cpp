// Adapters of every kind against peft and LyCORIS (tests/goldens/make_adapters.py): the weights that these make of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "ir/builder.hpp"
#include "ir/param_name.hpp"
#include "plan/plan.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"
#include "run/weights/lora.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr double kWeightError = 1e-6;  // relative L2

fs::path goldens() { return source_dir(kSourceDir) / "tests/goldens"; }

/// Params in f32, rounded once: those of the checkpoint are F16.
std::shared_ptr<const Program> program_of(std::span<const Component> components, const DeviceTarget& target,
                                          const std::string& param) {
  const ParamName name = split_param_name(param);
  const auto component = std::ranges::find(components, name.checkpoint, &Component::part);
  const TensorSpec& spec = component->checkpoint.entry(name.tensor);
  Graph graph("param");
  const ValueId value = graph.add_param(param, TensorType{.dtype = spec.dtype, .shape = spec.shape});
  graph.add_output("value", Builder(graph).cast(value, DType::kF32));
  return std::make_shared<Program>(plan(graph, target, {.arena = true}));
}

/// [n, ...] seen as a matrix, times probe[k, 2].
HostTensor probed(const HostTensor& weight, const HostTensor& probe) {
  const std::int64_t rows = weight.shape()[0], columns = weight.numel() / rows;
  HostTensor product(DType::kF64, {rows, probe.shape()[1]});
  for (std::int64_t i = 0; i < product.numel(); ++i) {
    const std::int64_t row = i / probe.shape()[1], column = i % probe.shape()[1];
    double sum = 0;
    for (std::int64_t k = 0; k < columns; ++k)
      sum += weight.at(row * columns + k) * probe.at(k * probe.shape()[1] + column);
    product.set(i, sum);
  }
  return product;
}

void expect_merged_as_by_their_libraries(DeviceKind device) {
  std::vector<Component> components;
  for (const char* part : {"unet", "text_encoder"}) {
    components.push_back(open_component((goldens() / "pipelines/sd-1.5" / part).string()));
    components.back().part = part;
  }
  const std::unique_ptr<Backend> backend = make_backend(device);
  WeightStore weights(*backend, components);
  const SafetensorsFile expected = SafetensorsFile::open(goldens() / "adapters/expected.safetensors");
  const nlohmann::json cases = read_json(goldens() / "adapters/cases.json");
  EXPECT_GE(cases.size(), 18U);
  for (const auto& [name, files] : cases.items()) {
    SCOPED_TRACE(name);
    std::vector<LoraUse> uses;
    for (const nlohmann::json& each : files)
      uses.push_back({.file = (goldens() / "adapters" / each.at("file").get<std::string>()).string(),
                      .weight = each.at("weight").get<double>()});
    LoraFiles loras;
    const ParamUpdates updates = loras.updates(uses, components);
    EXPECT_THAT(loras.notes(), testing::IsEmpty());
    static_cast<void>(weights.update_params(updates));
    std::size_t params = 0;
    for (const auto& [param, update] : updates) {
      const std::string key = name + "." + param;
      ASSERT_TRUE(expected.has(key)) << key << " is changed, and not by the library";
      Session session(program_of(components, backend->properties().target, param), weights, *backend);
      session.run();
      const HostTensor value = session.output("value");
      const HostTensor probe = expected.read("probe." + std::to_string(value.numel() / value.shape()[0]));
      EXPECT_LE(relative_l2(probed(value, probe), expected.read(key)), kWeightError) << param;
      ++params;
    }
    for (const auto& [key, entry] : expected.entries()) params -= key.starts_with(name + ".") ? 1 : 0;
    EXPECT_EQ(params, 0U) << "the library changes others too";
  }
}

TEST(AdapterGoldens, AreMergedAsByTheirLibraries) { expect_merged_as_by_their_libraries(DeviceKind::kCpu); }

using GpuAdapterGoldens = GpuTest;

TEST_F(GpuAdapterGoldens, AreMergedAsByTheirLibraries) { expect_merged_as_by_their_libraries(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
