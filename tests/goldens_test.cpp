// FLUX against diffusers in double precision (tests/goldens/make_flux.py), on the CPU's kernels with and without
// switches, and on the interpreter.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "backends/backend.hpp"
#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/safetensors.hpp"
#include "ir/interpreter.hpp"
#include "models/transformers/flux.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// One recorded pass of a model, and the model on a device.
class Golden {
 public:
  Golden(const std::string& name, DeviceKind device)
      : folder_(source_dir(kSourceDir) / "tests/goldens/flux" / name),
        model_(open_component(
            (fs::exists(folder_ / "config.json") ? folder_ : source_dir(kSourceDir) / "models" / name).string())),
        golden_(SafetensorsFile::open(folder_ / "golden.safetensors")),
        sample_(golden_.read("sample")),
        backend_(make_backend(device)),
        weights_(*backend_, model_.checkpoint) {}

  Graph forward() const {
    const Shape image = golden_.entry("hidden_states").shape;
    const Shape text = golden_.entry("encoder_hidden_states").shape;
    return build_flux_forward(parse_flux_config(model_.config),
                              {.batch = image[0], .image_tokens = image[1], .text_tokens = text[1]}, model_.params());
  }

  HostTensor run(const std::string& switches, std::vector<std::string>* applied = nullptr) {
    const Compiled compiled = compile(forward(), SwitchSet::parse(switches), backend_->properties().target);
    if (applied != nullptr) *applied = compiled.applied;
    Session session(compiled.program, weights_, *backend_);
    for (const ValueId input : compiled.program->graph.values_of(ValueKind::kInput)) {
      const std::string& name = compiled.program->graph.value(input).name;
      session.set_input(name, convert(golden_.read(name), DType::kF32));
    }
    for (int i = 0; i < 3; ++i) session.run();  // with `graph` the second is recorded and the third replayed
    return session.output("sample");
  }

  fs::path folder_;
  Component model_;
  SafetensorsFile golden_;
  HostTensor sample_;
  std::unique_ptr<Backend> backend_;
  WeightStore weights_;
};

class GoldenTest : public testing::TestWithParam<const char*>, public Golden {
 protected:
  GoldenTest() : Golden(GetParam(), DeviceKind::kCpu) {}
};

class GpuGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      golden_ = std::make_unique<Golden>(GetParam(), DeviceKind::kCuda);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Golden> golden_;
};

TEST_P(GoldenTest, TheInterpreterAgreesToTheLastDigits) {
  const Graph graph = forward();
  NamedTensors inputs, params;
  for (const ValueId input : graph.values_of(ValueKind::kInput))
    inputs[graph.value(input).name] = golden_.read(graph.value(input).name);
  for (const ValueId param : graph.values_of(ValueKind::kParam))
    params[graph.value(param).name] = model_.checkpoint.read(graph.value(param).name);
  EXPECT_LE(relative_l2(interpret(graph, inputs, params).outputs.at("sample"), sample_), 1e-7);
}

TEST_P(GoldenTest, TheBaselineAgreesInFp32) { EXPECT_LE(relative_l2(run(""), sample_), 5e-6); }

TEST_P(GoldenTest, ExactSwitchesStayWithTheBaseline) {
  const HostTensor baseline = run("");
  for (const std::string switches :
       {"arena", "flash", "fuse", "arena,fuse", "arena,flash", "flash,fuse", "arena,flash,fuse"}) {
    std::vector<std::string> applied;
    const HostTensor sample = run(switches, &applied);
    EXPECT_EQ(applied, SwitchSet::parse(switches).names());
    EXPECT_LE(relative_l2(sample, baseline), 1e-5) << switches;
    EXPECT_LE(relative_l2(sample, sample_), 5e-6) << switches;
  }
}

TEST_P(GoldenTest, Bf16StaysNear) {
  if (backend_->properties().target.cpu_isa < CpuIsa::kAvx512) GTEST_SKIP() << "bf16 declines on this CPU";
  for (const std::string switches : {"bf16", "arena,fuse,bf16", "flash,bf16", "arena,flash,fuse,bf16"}) {
    std::vector<std::string> applied;
    const double error = relative_l2(run(switches, &applied), sample_);
    EXPECT_EQ(applied, SwitchSet::parse(switches).names());
    EXPECT_LE(error, 1e-2) << switches;
    EXPECT_GE(error, 1e-5) << switches << ": this is fp32, not bf16";
  }
}

TEST_P(GoldenTest, Int8StaysWithinFivePercent) {
  if (backend_->properties().target.cpu_isa < CpuIsa::kAvx512Vnni) GTEST_SKIP() << "int8 declines on this CPU";
  for (const std::string switches : {"int8", "arena,fuse,int8", "arena,fuse,bf16,int8"}) {
    std::vector<std::string> applied;
    const double error = relative_l2(run(switches, &applied), sample_);
    EXPECT_EQ(applied, SwitchSet::parse(switches).names());
    EXPECT_LE(error, 5e-2) << switches;
    EXPECT_GE(error, 1e-4) << switches << ": this is not int8";
    std::printf("%s %s: relative L2 %.4f\n", GetParam(), switches.c_str(), error);
  }
}

TEST_P(GpuGoldenTest, ExactSwitchesAgreeInFp32) {
  for (const std::string switches :
       {"", "arena", "fuse", "arena,fuse", "graph", "arena,streams", "arena,flash,fuse,hoist,streams,graph"}) {
    std::vector<std::string> applied;
    EXPECT_LE(relative_l2(golden_->run(switches, &applied), golden_->sample_), 5e-6) << switches;
  }
}

TEST_P(GpuGoldenTest, Bf16StaysNear) {
  for (const std::string switches : {"bf16", "arena,flash,fuse,bf16", "arena,flash,fuse,bf16,streams,graph"}) {
    std::vector<std::string> applied;
    const double error = relative_l2(golden_->run(switches, &applied), golden_->sample_);
    EXPECT_EQ(applied, SwitchSet::parse(switches).names());
    EXPECT_LE(error, 1e-2) << switches;
    EXPECT_GE(error, 1e-5) << switches << ": this is fp32, not bf16";
  }
}

TEST_P(GpuGoldenTest, Fp16StaysNearer) {
  for (const std::string switches : {"fp16", "arena,flash,fuse,fp16"}) {
    std::vector<std::string> applied;
    const double error = relative_l2(golden_->run(switches, &applied), golden_->sample_);
    EXPECT_EQ(applied, SwitchSet::parse(switches).names());
    EXPECT_LE(error, 2e-3) << switches;
    EXPECT_GE(error, 1e-5) << switches << ": this is fp32, not fp16";
  }
}

TEST_P(GpuGoldenTest, Tf32StaysNearer) {
  for (const std::string switches : {"tf32", "arena,flash,fuse,tf32"}) {
    std::vector<std::string> applied;
    const double error = relative_l2(golden_->run(switches, &applied), golden_->sample_);
    EXPECT_EQ(applied, SwitchSet::parse(switches).names());
    EXPECT_LE(error, 5e-3) << switches;
    EXPECT_GE(error, 1e-5) << switches << ": this is fp32, not TF32";
  }
}

/// On GPUs with FP8 tensor cores. What the tiny models have of too few channels or tokens stays as it is.
TEST_P(GpuGoldenTest, Fp8RunsOnFp8TensorCoresAndStaysWithinTenPercent) {
  const DeviceTarget target = golden_->backend_->properties().target;
  if (target.compute_capability < 89) GTEST_SKIP() << "FP8 declines on sm_" << target.compute_capability;
  const bool is_large = std::string_view(GetParam()) == "fashion-flux";
  for (const std::string switches : {"fp8", "arena,fuse,bf16,fp8", "arena,flash,fuse,fp16,fp8"}) {
    const Compiled compiled = compile(golden_->forward(), SwitchSet::parse(switches), target);
    const bool has_applied = std::ranges::find(compiled.applied, "fp8") != compiled.applied.end();
    EXPECT_TRUE(has_applied || !is_large) << switches;
    if (!has_applied) continue;
    int matmuls = 0;
    for (const Step& step : compiled.program->steps) {
      if (step.op != Op::kScaledLinear) continue;
      ++matmuls;
      EXPECT_EQ(step.kernel->compute_name(step.spec), "f8e4m3") << step.label;
      for (const std::size_t operand : {0U, 2U}) EXPECT_EQ(step.spec.inputs[operand].dtype, DType::kF8E4M3);
    }
    EXPECT_GE(matmuls, is_large ? 10 : 1) << switches;
    const double error = relative_l2(golden_->run(switches), golden_->sample_);
    EXPECT_LE(error, 1e-1) << switches;
    EXPECT_GE(error, 2e-3) << switches << ": this is not FP8";
    std::printf("%s %s: relative L2 %.4f\n", GetParam(), switches.c_str(), error);
  }
}

constexpr const char* kModels[] = {"fashion-flux", "tiny-guidance", "tiny-no-double", "tiny-no-single"};

std::string test_name(const testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Flux, GoldenTest, testing::ValuesIn(kModels), test_name);
INSTANTIATE_TEST_SUITE_P(Flux, GpuGoldenTest, testing::ValuesIn(kModels), test_name);

}  // namespace
}  // namespace headroom
