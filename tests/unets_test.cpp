// U-Nets against diffusers in double precision (tests/goldens/make_unets.py): UNet2DConditionModel as of Stable Diffusion 1.5, 2 and XL
// and UNet2DModel, on the interpreter and on both devices' kernels with and without switches.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "ir/interpreter.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/lora.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUNets[] = {"sd15", "sd2", "sdxl", "pixel", "pixel-scale-shift"};
constexpr double kExactError = 1e-7;  // relative L2 of the interpreter, which computes in double precision as well
constexpr double kUNetFp32Error = 5e-6;
constexpr double kNarrowRatio = 1.1;  // of diffusers' own error in 16 bits on that device

fs::path folder_of(const std::string& name) { return source_dir(kSourceDir) / "tests/goldens/unets" / name; }

class UNetGolden {
 public:
  UNetGolden(const std::string& name, DeviceKind device) : UNetGolden(folder_of(name), folder_of(name), device) {}
  /// The inputs and the output of one folder, and the network of another.
  UNetGolden(const fs::path& golden, const fs::path& network, DeviceKind device)
      : component_(open_component(network.string())),
        golden_(SafetensorsFile::open(golden / "golden.safetensors")),
        backend_(make_backend(device)),
        weights_(*backend_, component_.checkpoint) {}

  Graph forward() const {
    InputShapes given;
    for (const auto& [name, entry] : golden_.entries()) given.emplace(name, entry.shape);
    return component_.build(component_.kind->passes.front(), given);
  }

  HostTensor run(const std::string& switches) {
    const Compiled compiled = compile(forward(), SwitchSet::parse(switches), backend_->properties().target);
    Session session(compiled.program, weights_, *backend_);
    for (const ValueId input : compiled.program->graph.values_of(ValueKind::kInput)) {
      const std::string& name = compiled.program->graph.value(input).name;
      session.set_input(name, golden_.read(name));
    }
    for (int i = 0; i < 3; ++i) session.run();  // with `graph` the second is recorded and the third replayed
    return session.output("out_sample");
  }
  /// How far that is from the golden (relative L2).
  double error(const std::string& switches) { return relative_l2(run(switches), golden_.read("out_sample")); }

  double interpreters_error() const {
    const Graph graph = forward();
    NamedTensors inputs, params;
    for (const ValueId input : graph.values_of(ValueKind::kInput))
      inputs[graph.value(input).name] = golden_.read(graph.value(input).name);
    for (const ValueId param : graph.values_of(ValueKind::kParam))
      params[graph.value(param).name] = component_.checkpoint.read(graph.value(param).name);
    return relative_l2(interpret(graph, inputs, params).outputs.at("out_sample"), golden_.read("out_sample"));
  }

  void add(const LoraUse& lora) {
    LoraFiles files;
    static_cast<void>(weights_.update_params(files.updates({&lora, 1}, {&component_, 1})));
  }

  /// diffusers' own: "bf16_error", "fp16_error_cuda".
  double diffusers(const std::string& error) const { return golden_.read(error).at(0); }

 private:
  Component component_;
  SafetensorsFile golden_;
  std::unique_ptr<Backend> backend_;
  WeightStore weights_;
};

void expect_unets_in_fp32(DeviceKind device, const std::vector<std::string>& sets) {
  for (const char* name : kUNets) {
    UNetGolden golden(name, device);
    for (const std::string& switches : sets) EXPECT_LE(golden.error(switches), kUNetFp32Error) << name << ' ' << switches;
  }
}

void expect_unets_in_16_bits(DeviceKind device, const std::string& precision, const std::vector<std::string>& sets) {
  if (device == DeviceKind::kCpu && make_backend(device)->properties().target.cpu_isa < CpuIsa::kAvx512)
    GTEST_SKIP() << precision << " declines on this CPU";
  for (const char* name : kUNets) {
    UNetGolden golden(name, device);
    const double theirs = golden.diffusers(precision + (device == DeviceKind::kCuda ? "_error_cuda" : "_error"));
    for (const std::string& switches : sets) {
      const double ours = golden.error(switches + precision);
      EXPECT_LE(ours, kNarrowRatio * theirs) << name << ' ' << switches << precision;
      EXPECT_GE(ours, theirs / 10) << name << ' ' << switches << precision << ": this is not in 16 bits";
      std::printf("%s %s%s: %.3e, diffusers %.3e, %.2f of it\n", name, switches.c_str(), precision.c_str(), ours,
                  theirs, ours / theirs);
    }
  }
}

const std::vector<std::string> kExactSets = {"baseline",      "arena",      "flash",   "fuse",
                                             "channels-last", "flash,fuse", "lossless"};

TEST(UNets, AreDiffusersToTheLastDigitsInTheInterpreter) {
  for (const char* name : kUNets)
    EXPECT_LE(UNetGolden(name, DeviceKind::kCpu).interpreters_error(), kExactError) << name;
}
TEST(UNets, AreDiffusersInFp32) { expect_unets_in_fp32(DeviceKind::kCpu, kExactSets); }
TEST(UNets, AreAsGoodAsDiffusersInBf16) { expect_unets_in_16_bits(DeviceKind::kCpu, "bf16", {"", "lossless,"}); }

/// W + scale B A, W[n, ...] and B A[n, k] with as many elements.
HostTensor sum_of(const HostTensor& weight, const HostTensor& up, const HostTensor& down, double scale) {
  HostTensor sum(DType::kF32, weight.shape());
  const std::int64_t rank = down.shape()[0], columns = down.numel() / rank;
  for (std::int64_t i = 0; i < sum.numel(); ++i) {
    double product = 0;
    for (std::int64_t r = 0; r < rank; ++r)
      product += up.at(i / columns * rank + r) * down.at(r * columns + i % columns);
    sum.set(i, weight.at(i) + scale * product);
  }
  return sum;
}

/// A file in sd-scripts' form, under diffusers' names and Stability's, against a checkpoint that holds the sums.
void expect_loras_in_convolutions(DeviceKind device) {
  struct Adapted {
    const char *name, *param;
  };
  constexpr Adapted kAdapted[] = {
      {"lora_unet_down_blocks_0_attentions_0_proj_in", "down_blocks.0.attentions.0.proj_in.weight"},
      {"lora_unet_input_blocks_3_0_in_layers_2", "down_blocks.1.resnets.0.conv1.weight"},
      {"lora_unet_up_blocks_0_upsamplers_0_conv", "up_blocks.0.upsamplers.0.conv.weight"},
      {"lora_unet_middle_block_1_transformer_blocks_0_attn2_to_k",
       "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight"}};
  constexpr std::int64_t kRank = 2;
  constexpr double kAlpha = 1, kWeight = 0.8;
  const TempFolder folder;
  const Checkpoint checkpoint = Checkpoint::open(folder_of("sd15"));
  std::map<std::string, HostTensor> weights, lora;
  for (const TensorSpec& spec : checkpoint.tensors())
    weights.emplace(spec.name, convert(checkpoint.read(spec.name), DType::kF32));
  std::uint64_t seed = 0;
  for (const auto& [name, param] : kAdapted) {
    HostTensor& weight = weights.at(param);
    const bool is_image = weight.shape().rank() == 4;
    Shape up{weight.shape()[0], kRank}, down = weight.shape();
    down.set(0, kRank);
    if (is_image) up = Shape{up[0], kRank, 1, 1};
    const std::string module = name;
    const HostTensor b = lora.emplace(module + ".lora_up.weight", random_f32(up, ++seed)).first->second;
    const HostTensor a = lora.emplace(module + ".lora_down.weight", random_f32(down, ++seed)).first->second;
    HostTensor alpha(DType::kF32, Shape{});
    alpha.set(0, kAlpha);
    lora.emplace(module + ".alpha", std::move(alpha));
    weight = sum_of(weight, b, a, kWeight * kAlpha / kRank);
  }
  write_safetensors(folder / "lora.safetensors", lora);
  write_json(folder / "config.json", checkpoint.config());
  write_safetensors(folder / "diffusion_pytorch_model.safetensors", weights);

  UNetGolden summed(folder_of("sd15"), folder.path(), device), adapted("sd15", device);
  const HostTensor expected = summed.run("baseline");
  EXPECT_GE(summed.error("baseline"), 0.1) << "the adapters change nothing to speak of";
  adapted.add({.file = (folder / "lora.safetensors").string(), .weight = kWeight});
  for (const char* switches : {"baseline", "lossless"})
    EXPECT_LE(relative_l2(adapted.run(switches), expected), kUNetFp32Error) << switches;
}

TEST(UNets, TakeLorasOfConvolutions) { expect_loras_in_convolutions(DeviceKind::kCpu); }

class GpuUNets : public GpuTest {};

TEST_F(GpuUNets, AreDiffusersInFp32) { expect_unets_in_fp32(DeviceKind::kCuda, kExactSets); }
TEST_F(GpuUNets, TakeLorasOfConvolutions) { expect_loras_in_convolutions(DeviceKind::kCuda); }
TEST_F(GpuUNets, AreAsGoodAsDiffusersInFp16) { expect_unets_in_16_bits(DeviceKind::kCuda, "fp16", {"", "lossless,"}); }
TEST_F(GpuUNets, AreAsGoodAsDiffusersInBf16) { expect_unets_in_16_bits(DeviceKind::kCuda, "bf16", {"", "lossless,"}); }

}  // namespace
}  // namespace headroom
