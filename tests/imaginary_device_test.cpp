// Every class of networks on a device that does not exist (testing/imaginary_device.hpp), at small sizes with random
// weights, against the CPU's baseline: no pass, plan or session takes what is not a CPU for a GPU.

#include "testing/imaginary_device.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr double kExactError = 1e-5;  // relative L2: every switch here is exact

struct Case {
  std::string folder;  ///< in tests/goldens
  PassSize size = {.batch = 2, .height = 64, .width = 32, .text_tokens = 7};
};
const std::vector<Case> kCases = {
    {"flux/tiny-guidance"},
    {"flux3/base"},
    {"flux3/flux2-klein"},
    {"qwen_image/wide"},
    {"z_image/odd"},
    {"vae/flux"},
    {"vae/flux2"},
    {"vae/qwen-image"},
    {"vae/tiny"},
    {"text/t5"},
    {"text/clip-l"},
    {"text/clip-g"},
    {"text/qwen2.5-vl"},
    {"text/qwen3", {.batch = 1, .text_tokens = 7}},
    {"text/qwen3-vl-stacked", {.batch = 1, .text_tokens = 7}},
    {"text/gpt2"},
    {"unets/sd15"},
    {"unets/sdxl"},
    {"unets/pixel", {.batch = 2, .height = 16, .width = 16}},
    {"live_stream/two-layers"},
};

Component open_random(const Case& each) {
  return open_component((source_dir(kSourceDir) / "tests/goldens" / each.folder).string(), {.random_seed = 0});
}

/// The outputs of one run, and how it was compiled.
struct Ran {
  Compiled compiled;
  std::map<std::string, HostTensor> outputs;
};
Ran run(const ForwardPass& pass, Backend& backend, WeightStore& weights, const std::string& switches) {
  Ran ran{.compiled = compile(pass, SwitchSet::parse(switches), backend.properties().target), .outputs = {}};
  Session session(ran.compiled.program, weights, backend);
  pass.set_inputs(session);
  for (int i = 0; i < 2; ++i) session.run();
  for (const Output& output : ran.compiled.program->graph.outputs())
    ran.outputs.emplace(output.name, session.output(output.name));
  return ran;
}

std::vector<std::string> declined(const Compiled& compiled) {
  std::vector<std::string> names;
  for (const Declined& each : compiled.declined) names.push_back(each.switch_name);
  return names;
}

class ImaginaryDevice : public testing::TestWithParam<std::size_t> {};

TEST_P(ImaginaryDevice, RunsEveryPassOfAClassAsTheBaseline) {
  const Case& each = kCases[GetParam()];
  const Component component = open_random(each);
  const std::unique_ptr<Backend> cpu = make_backend(DeviceKind::kCpu, 1), imaginary = make_imaginary_backend(1);
  WeightStore weights(*cpu, component.checkpoint), own_weights(*imaginary, component.checkpoint);
  for (const ComponentPass& kind : component.kind->passes) {
    const ForwardPass pass = make_forward_pass(component, kind, each.size);
    const Ran expected = run(pass, *cpu, weights, "baseline");
    for (const char* switches :
         {"baseline", "arena", "fuse", "arena,flash,fuse,hoist,align,channels-last,tile,streams,graph"}) {
      SCOPED_TRACE(fmt::format("{} {} under {}", each.folder, kind.name, switches));
      const Ran actual = run(pass, *imaginary, own_weights, switches);
      for (const auto& [name, tensor] : expected.outputs)
        EXPECT_LE(relative_l2(actual.outputs.at(name), tensor), kExactError) << name;
      for (const Step& step : actual.compiled.program->steps)
        if (step.kernel != nullptr) {
          EXPECT_EQ(step.kernel->device(), kImaginary) << step.kernel->name();
        }
      if (SwitchSet::parse(switches).has("graph")) {
        EXPECT_THAT(declined(actual.compiled), AllOf(Contains("graph"), Contains("tile")));
        // The steps of the tiny autoencoder are a chain, and of what scales latents there is one.
        EXPECT_EQ(actual.compiled.program->lanes, each.folder == "vae/tiny" || kind.name == "normalize" ? 1 : 2);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, ImaginaryDevice, testing::Range<std::size_t>(0, kCases.size()));

TEST(ImaginaryDeviceCases, AreEveryClass) {
  std::vector<std::string> names;
  for (const Case& each : kCases) names.emplace_back(open_random(each).kind->name);
  for (const ComponentClass& known : component_classes()) EXPECT_THAT(names, Contains(std::string(known.name)));
}

/// Number of nodes of an op in the program of a U-Net.
std::ptrdiff_t count(const Compiled& compiled, Op op) {
  return std::ranges::count(compiled.program->graph.nodes(), op, &Node::op);
}

TEST(ImaginaryDeviceLimits, DecideWhatPassesDo) {
  const Case unet{"unets/sd15"};
  const Component component = open_random(unet);
  const ForwardPass pass = make_forward_pass(component, component.kind->passes.front(), unet.size);
  const std::unique_ptr<Backend> cpu = make_backend(DeviceKind::kCpu, 1), imaginary = make_imaginary_backend(1);
  const auto compiled = [&](const Backend& backend, const char* switches) {
    return compile(pass, SwitchSet::parse(switches), backend.properties().target);
  };
  // Channels in vectors of 12: the CPU's vectors take any number of f32.
  EXPECT_THAT(declined(compiled(*cpu, "align")), Contains("align"));
  const Compiled aligned = compiled(*imaginary, "align");
  EXPECT_EQ(declined(aligned), std::vector<std::string>{});
  for (const Node& node : aligned.program->graph.nodes())
    if (node.op == Op::kConv2d) {
      EXPECT_EQ(aligned.program->graph.type(node.results[0]).shape[1] % 12, 0) << describe(node);
    }
  // Row-major images are faster until then.
  EXPECT_THAT(declined(compiled(*imaginary, "channels-last")), Contains("channels-last"));
  EXPECT_EQ(declined(compiled(*imaginary, "align,channels-last")), std::vector<std::string>{});
  EXPECT_EQ(declined(compiled(*cpu, "channels-last")), std::vector<std::string>{});
  // Launches cost, so that small projections of the step are merged; and few convolutions end in an activation.
  EXPECT_LT(count(compiled(*imaginary, "fuse"), Op::kLinear), count(compiled(*cpu, "fuse"), Op::kLinear));
  // No unit of lower precision.
  EXPECT_THAT(declined(compiled(*imaginary, "bf16,int8,fp8,fp16,tf32")),
              testing::UnorderedElementsAre("bf16", "int8", "fp8", "fp16", "tf32"));
}

TEST(ImaginaryDeviceLimits, OfMemoryAreNamedWithTheDevice) {
  const Case unet{"unets/sd15"};
  const Component component = open_random(unet);
  const ForwardPass pass = make_forward_pass(component, component.kind->passes.front(), unet.size);
  const std::unique_ptr<Backend> small = make_imaginary_backend(1, std::size_t{64} << 10);
  const WeightStore weights(*small, component.checkpoint);
  const Compiled compiled = compile(pass, {}, small->properties().target);
  const std::string sentence = error_of([&] { require_fit(compiled, pass, {}, weights, *small); });
  EXPECT_THAT(sentence, HasSubstr("of the 64.0 KiB of device imaginary"));
}

}  // namespace
}  // namespace headroom
