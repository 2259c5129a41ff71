// AutoencoderKL against diffusers in double precision (tests/goldens/make_vae.py): encoder and decoder, whole and in tiles, of two
// configurations, on both devices' kernels with and without switches.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/gpu_test.hpp"
#include "base/test_util.hpp"
#include "io/safetensors.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session.hpp"
#include "run/weight_store.hpp"

namespace headroom {
namespace {

constexpr double kFp32Error = 5e-6;  // relative L2; diffusers in fp32 is within 1.3e-6 of the goldens
constexpr double kBf16Ratio = 1.1;   // of diffusers' own error in bf16

class VaeGolden {
 public:
  VaeGolden(const std::string& name, DeviceKind device)
      : folder_(source_dir(HEADROOM_SOURCE_DIR) / "tests/goldens/vae" / name),
        component_(open_component(folder_.string())),
        golden_(SafetensorsFile::open(folder_ / "golden.safetensors")),
        backend_(make_backend(device)),
        weights_(*backend_, component_.checkpoint) {}

  /// The relative L2 errors of the pass's outputs, and diffusers' own in bf16, each as the root of the mean of their squares.
  struct Errors {
    double ours = 0, diffusers_bf16 = 0;
  };
  Errors run(const std::string& pass_name, const std::string& switches) {
    const ComponentPass& pass = pass_named(*component_.kind, pass_name);
    InputShapes given;
    for (const std::string_view input : pass.inputs) given.emplace(input, golden_.entry(input).shape);
    const Compiled compiled =
        compile(component_.build(pass, given), SwitchSet::parse(switches), backend_->properties().target);
    Session session(compiled.program, weights_, *backend_);
    for (const std::string_view input : pass.inputs) session.set_input(std::string(input), golden_.read(input));
    for (int i = 0; i < 3; ++i) session.run();  // with `graph` the second is recorded and the third replayed
    Errors errors;
    const std::string suffix = pass_name.ends_with("-tiled") ? "_tiled" : "";
    const auto outputs = compiled.program->graph.outputs();
    for (const Output& output : outputs) {
      const double error = relative_l2(session.output(output.name), golden_.read(output.name + suffix));
      const double narrow = golden_.read(output.name + suffix + "_bf16_error").at(0);
      errors.ours += error * error / static_cast<double>(outputs.size());
      errors.diffusers_bf16 += narrow * narrow / static_cast<double>(outputs.size());
    }
    return {.ours = std::sqrt(errors.ours), .diffusers_bf16 = std::sqrt(errors.diffusers_bf16)};
  }

 private:
  std::filesystem::path folder_;
  Component component_;
  SafetensorsFile golden_;
  std::unique_ptr<Backend> backend_;
  WeightStore weights_;
};

constexpr const char* kPasses[] = {"decode", "encode", "decode-tiled", "encode-tiled"};
constexpr const char* kConfigurations[] = {"flux", "stable-diffusion"};

void expect_in_fp32(DeviceKind device, const std::vector<std::string>& sets) {
  for (const char* configuration : kConfigurations) {
    VaeGolden golden(configuration, device);
    for (const char* pass : kPasses)
      for (const std::string& switches : sets)
        EXPECT_LE(golden.run(pass, switches).ours, kFp32Error) << configuration << ' ' << pass << ' ' << switches;
  }
}

void expect_in_bf16(DeviceKind device) {
  for (const char* configuration : kConfigurations) {
    VaeGolden golden(configuration, device);
    for (const char* pass : kPasses) {
      const VaeGolden::Errors errors = golden.run(pass, "lossless,bf16");
      EXPECT_LE(errors.ours, kBf16Ratio * errors.diffusers_bf16) << configuration << ' ' << pass;
    }
  }
}

TEST(Vae, IsDiffusersInFp32) {
  expect_in_fp32(DeviceKind::kCpu, {"baseline", "arena", "fuse", "channels-last", "flash,fuse", "lossless"});
}
TEST(Vae, IsAsGoodAsDiffusersInBf16) { expect_in_bf16(DeviceKind::kCpu); }

class GpuVae : public GpuTest {};

TEST_F(GpuVae, IsDiffusersInFp32) {
  expect_in_fp32(DeviceKind::kCuda, {"baseline", "arena", "fuse", "channels-last", "flash,fuse", "lossless"});
}
TEST_F(GpuVae, IsAsGoodAsDiffusersInBf16) { expect_in_bf16(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
