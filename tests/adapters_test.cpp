// Adapters of every kind against peft and LyCORIS (tests/goldens/make_adapters.py): the weights that these make of them.
// Those of Qwen-Image in every spelling against peft, and distilled ones against diffusers' images
// (tests/goldens/make_qwen_image_adapters.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
#include "pipelines/generator.hpp"
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

/// Adapters in a folder of goldens, and the pipeline that they are for.
struct Adapters {
  std::string folder;
  std::string pipeline;
  std::vector<std::string> parts;
  std::size_t least_cases;
};
const Adapters kEveryKind{"adapters", "sd-1.5", {"unet", "text_encoder"}, 18};
const Adapters kQwenImage{"qwen_image_adapters", "qwen-image", {"transformer"}, 9};

void expect_merged_as_by_their_libraries(DeviceKind device, const Adapters& adapters) {
  std::vector<Component> components;
  for (const std::string& part : adapters.parts) {
    components.push_back(open_component((goldens() / "pipelines" / adapters.pipeline / part).string()));
    components.back().part = part;
  }
  const std::unique_ptr<Backend> backend = make_backend(device);
  WeightStore weights(*backend, components);
  const fs::path folder = goldens() / adapters.folder;
  const SafetensorsFile expected = SafetensorsFile::open(folder / "expected.safetensors");
  const nlohmann::json cases = read_json(folder / "cases.json");
  EXPECT_GE(cases.size(), adapters.least_cases);
  for (const auto& [name, files] : cases.items()) {
    SCOPED_TRACE(name);
    std::vector<LoraUse> uses;
    for (const nlohmann::json& each : files)
      uses.push_back(
          {.file = (folder / each.at("file").get<std::string>()).string(), .weight = each.at("weight").get<double>()});
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

TEST(AdapterGoldens, AreMergedAsByTheirLibraries) {
  for (const Adapters& adapters : {kEveryKind, kQwenImage})
    expect_merged_as_by_their_libraries(DeviceKind::kCpu, adapters);
}

using GpuAdapterGoldens = GpuTest;

TEST_F(GpuAdapterGoldens, AreMergedAsByTheirLibraries) {
  for (const Adapters& adapters : {kEveryKind, kQwenImage})
    expect_merged_as_by_their_libraries(DeviceKind::kCuda, adapters);
}

/// Images of Lightning's adapter without guidance, on levels shifted by 3 without a terminal: by the switch, and by the
/// scheduler that its authors give.
void expect_lightning(DeviceKind device) {
  const fs::path folder = goldens() / kQwenImage.folder;
  const SafetensorsFile expected = SafetensorsFile::open(folder / "expected.safetensors");
  const TempFolder copied;
  fs::copy(goldens() / "pipelines/qwen-image", copied / "qwen-image", fs::copy_options::recursive);
  const fs::path scheduler_file = copied / "qwen-image/scheduler/scheduler_config.json";
  nlohmann::json scheduler = read_json(scheduler_file);
  scheduler.update({{"base_shift", std::log(3.0)}, {"max_shift", std::log(3.0)}, {"shift_terminal", nullptr}});
  write_json(scheduler_file, scheduler);

  const std::unique_ptr<Backend> backend = make_backend(device);
  for (const auto& [opened, switches] :
       {std::pair(goldens() / "pipelines/qwen-image", "lossless,sampler=euler:shift=3"),
        std::pair(copied / "qwen-image", "lossless")}) {
    const std::unique_ptr<Pipeline> pipeline = open_pipeline(opened.string());
    LoraFiles loras;
    const LoraUse lightning{.file = (folder / "lightning.safetensors").string()};
    pipeline->set_updates(loras.updates({&lightning, 1}, pipeline->components()));
    WeightStore weights(*backend, pipeline->components());
    for (const std::int64_t steps : {8, 4}) {
      SCOPED_TRACE(fmt::format("{} {} steps", switches, steps));
      const auto golden = [&](const char* what) { return expected.read(fmt::format("steps-{}.{}", steps, what)); };
      const RequestOptions options{
          .token_rows = 3, .token_columns = 4, .steps = steps, .switches = SwitchSet::parse(switches)};
      const std::vector<double> levels =
          pipeline->sampler_tables(pipeline->resolve(options)).timesteps;  // in training steps
      for (std::int64_t step = 0; step < steps; ++step)
        EXPECT_NEAR(levels.at(static_cast<std::size_t>(step)), 1000 * golden("sigmas").at(step), 1e-9);
      Generator generator(*pipeline, *backend, weights, options);
      ImageRequest image{.prompt = "a red fox"};
      const HostTensor noise = golden("noise");
      image.noise = HostTensor(DType::kF32, Shape(noise.shape().dims().subspan(1)));
      std::ranges::copy(noise.bytes(), image.noise.bytes().begin());
      EXPECT_LE(relative_l2(generator.generate({&image, 1}), golden("latents")), 1e-5);
    }
  }
}

TEST(QwenImageLightning, IsDiffusersWithItsScheduler) { expect_lightning(DeviceKind::kCpu); }
TEST_F(GpuAdapterGoldens, OfQwenImageLightningAreDiffusersWithItsScheduler) { expect_lightning(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
