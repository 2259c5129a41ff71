// A converted checkpoint computes what the switch int8 computes on the original.

#include "run/convert.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include "base/test_paths.hpp"
#include "io/safetensors.hpp"
#include "models/transformers/flux.hpp"
#include "run/compile.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

class ConvertTest : public testing::Test {
 protected:
  ConvertTest() {
    fs::create_directories(folder_);
    convert_checkpoint(original_, *backend_, SwitchSet::parse("int8"), folder_ / "int8");
  }
  ~ConvertTest() override { fs::remove_all(folder_); }

  HostTensor run(const Component& model, const std::string& switches) {
    const SafetensorsFile golden =
        SafetensorsFile::open(std::string(kSourceDir) + "/tests/goldens/flux/fashion-flux/golden.safetensors");
    const Shape image = golden.entry("hidden_states").shape;
    const Shape text = golden.entry("encoder_hidden_states").shape;
    Graph graph =
        build_flux_forward(parse_flux_config(model.config),
                           {.batch = image[0], .image_tokens = image[1], .text_tokens = text[1]}, model.params());
    const Compiled compiled = compile(std::move(graph), SwitchSet::parse(switches), backend_->properties().target);
    WeightStore weights(*backend_, model.checkpoint);
    Session session(compiled.program, weights, *backend_);
    for (const ValueId input : compiled.program->graph.values_of(ValueKind::kInput)) {
      const std::string& name = compiled.program->graph.value(input).name;
      session.set_input(name, convert(golden.read(name), DType::kF32));
    }
    session.run();
    return session.output("sample");
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("headroom-convert-{}", std::random_device()());
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  Component original_ = open_component(std::string(kSourceDir) + "/models/fashion-flux");
};

/// The elements and scales that the definition of quantize gives.
TEST_F(ConvertTest, HoldsWhatTheSwitchMakesBitForBit) {
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "int8" / "diffusion_pytorch_model.safetensors");
  int quantized = 0;
  for (const auto& [name, entry] : file.entries()) {
    if (entry.dtype != DType::kI8) continue;
    ++quantized;
    const HostTensor weight = original_.checkpoint.read(name);
    const HostTensor q = file.read(name), scale = file.read(name + "_scale");
    const std::int64_t n = entry.shape[0], k = entry.shape[1];
    for (std::int64_t row = 0; row < n; ++row) {
      float peak = 0;
      for (std::int64_t i = row * k; i < (row + 1) * k; ++i)
        peak = std::max(peak, std::fabs(static_cast<float>(weight.at(i))));
      ASSERT_EQ(scale.as<float>()[static_cast<std::size_t>(row)], peak / 127.0F) << name;
      for (std::int64_t i = row * k; i < (row + 1) * k; ++i)
        ASSERT_EQ(q.at(i), std::nearbyint(static_cast<float>(weight.at(i)) * (127.0F / peak))) << name << " " << i;
    }
  }
  EXPECT_GT(quantized, 60);
}

TEST_F(ConvertTest, RunsWithAndWithoutTheSwitch) {
  const Component converted = open_component((folder_ / "int8").string());
  const HostTensor exact = run(original_, "");
  const double widened = relative_l2(run(converted, "arena,fuse"), exact);
  EXPECT_LE(widened, 5e-2);
  EXPECT_GE(widened, 1e-4);
  EXPECT_LE(relative_l2(run(converted, "arena,fuse,bf16"), exact), 5e-2);
  for (const std::string switches : {"int8", "arena,fuse,int8"}) {
    const HostTensor quantized = run(converted, switches);
    const double from_original = relative_l2(quantized, run(original_, switches));
    EXPECT_LE(from_original, 2e-2) << switches;
    EXPECT_LE(relative_l2(quantized, exact), 5e-2) << switches;
    std::printf("%s: relative L2 to fp32 %.4f, to int8 of the original %.4f; widened %.4f\n", switches.c_str(),
                relative_l2(quantized, exact), from_original, widened);
  }
}

}  // namespace
}  // namespace headroom
