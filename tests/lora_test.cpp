// LoRA files of FLUX against diffusers (tests/goldens/make_loras.py): what they make of each weight, and of a forward pass.

#include "run/weights/lora.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "ir/param_name.hpp"
#include "pipelines/generator_pool.hpp"
#include "pipelines/pipeline.hpp"
#include "plan/plan.hpp"
#include "run/session/session.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr double kWeightError = 1e-6;  // relative L2, as that below
constexpr double kSampleError = 1e-5;

fs::path goldens() { return source_dir(kSourceDir) / "tests/goldens"; }

std::vector<LoraUse> uses_of(const nlohmann::json& files) {
  std::vector<LoraUse> uses;
  for (const nlohmann::json& each : files)
    uses.push_back({.file = (goldens() / "lora" / each.at("file").get<std::string>()).string(),
                    .weight = each.at("weight").get<double>()});
  return uses;
}

/// The small pipeline that the files fit, and what diffusers makes of them.
struct Golden {
  explicit Golden(DeviceKind device)
      : pipeline(open_pipeline((goldens() / "pipelines/flux-dev").string())),
        backend(make_backend(device)),
        weights(std::make_unique<WeightStore>(*backend, pipeline->components())),
        cases(read_json(goldens() / "lora/cases.json")),
        expected(SafetensorsFile::open(goldens() / "lora/expected.safetensors")) {}

  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<WeightStore> weights;
  nlohmann::json cases;
  SafetensorsFile expected;
  LoraFiles files;

  /// Makes the weights what a case says.
  void apply(const std::string& name) {
    static_cast<void>(weights->update_params(files.updates(uses_of(cases.at(name)), pipeline->components())));
    EXPECT_TRUE(files.notes().empty());
  }
  /// The params that a case changes.
  [[nodiscard]] std::vector<std::string> params_of(const std::string& name) const {
    std::vector<std::string> params;
    for (const auto& [key, entry] : expected.entries())
      if (key.starts_with(name + ".") && key.find(kAfterCheckpoint) != std::string::npos)
        params.push_back(key.substr(name.size() + 1));
    return params;
  }
  /// A matrix as the golden has it: times `probe.<columns>`, in double precision.
  [[nodiscard]] HostTensor probed(const HostTensor& weight) const {
    if (weight.shape().rank() == 1) return weight;
    const std::int64_t rows = weight.shape()[0], columns = weight.shape()[1];
    const HostTensor probe = expected.read("probe." + std::to_string(columns));
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
};

/// A program that puts out params as they are.
std::shared_ptr<const Program> program_of(const std::vector<std::string>& params, const Golden& golden) {
  Graph graph("params");
  for (const std::string& param : params) {
    const ParamName name = split_param_name(param);
    const TensorSpec& spec = golden.pipeline->component(name.checkpoint).checkpoint.entry(name.tensor);
    graph.add_output(param, graph.add_param(param, TensorType{.dtype = spec.dtype, .shape = spec.shape}));
  }
  return std::make_shared<Program>(plan(graph, golden.backend->properties().target, {.arena = true}));
}

HostTensor sample(const Golden& golden, const std::string& switches) {
  const Component& transformer = golden.pipeline->component("transformer");
  InputShapes given;
  const ComponentPass& pass = pass_named(*transformer.kind, "forward");
  for (const std::string_view input : pass.inputs)
    given.emplace(input, golden.expected.entry("input." + std::string(input)).shape);
  given.emplace("guidance", golden.expected.entry("input.guidance").shape);
  const Compiled compiled = compile(transformer.build(pass, given), SwitchSet::parse(switches),
                                    golden.backend->properties().target, {.baseline = DType::kF32});
  Session session(compiled.program, *golden.weights, *golden.backend);
  for (const auto& [name, shape] : given) session.set_input(name, golden.expected.read("input." + name));
  session.run();
  return session.output("sample");
}

void expect_fused_as_by_diffusers(DeviceKind device) {
  Golden golden(device);
  for (const auto& [name, files] : golden.cases.items()) {
    SCOPED_TRACE(name);
    golden.apply(name);
    const std::vector<std::string> params = golden.params_of(name);
    EXPECT_FALSE(params.empty());
    Session session(program_of(params, golden), *golden.weights, *golden.backend);
    session.run();
    for (const std::string& param : params)
      EXPECT_LE(relative_l2(golden.probed(session.output(param)), golden.expected.read(name + "." + param)),
                kWeightError)
          << param;
    for (const char* switches : {"baseline", "lossless"})
      EXPECT_LE(relative_l2(sample(golden, switches), golden.expected.read(name + ".sample")), kSampleError)
          << switches;
  }
}

TEST(LoraGoldens, AreFusedAsByDiffusers) { expect_fused_as_by_diffusers(DeviceKind::kCpu); }

using GpuLoraGoldens = GpuTest;

TEST_F(GpuLoraGoldens, AreFusedAsByDiffusers) { expect_fused_as_by_diffusers(DeviceKind::kCuda); }

/// Images of `requests` in turn, each with its LoRA files.
std::vector<HostTensor> draw(const Golden& golden, const std::string& switches,
                             const std::vector<std::vector<LoraUse>>& requests) {
  WeightStore weights(*golden.backend, golden.pipeline->components());
  GeneratorPool pool(*golden.pipeline, *golden.backend, weights, SwitchSet::parse(switches));
  const RequestOptions options{.token_rows = 2, .token_columns = 3, .text_tokens = 8, .steps = 2, .switches = {}};
  const ImageRequest image{.seed = 3, .prompt = "a red fox"};
  LoraFiles files;
  std::vector<HostTensor> drawn;
  for (const std::vector<LoraUse>& uses : requests) {
    static_cast<void>(pool.update_params(files.updates(uses, golden.pipeline->components())));
    drawn.push_back(pool.get(options).generate({&image, 1}));
  }
  return drawn;
}

/// What is drawn does not depend on what was drawn before, prompts that were read included, and goes without a trace.
void expect_requests_apart(DeviceKind device, const std::string& switches) {
  const Golden golden(device);
  const std::vector<LoraUse> peft = uses_of(golden.cases.at("peft")), kohya = uses_of(golden.cases.at("kohya")),
                             two = uses_of(golden.cases.at("two"));
  const std::vector<std::vector<LoraUse>> requests = {{}, peft, kohya, kohya, {}, two, peft};
  const std::vector<HostTensor> drawn = draw(golden, switches, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(relative_l2(drawn[i], draw(golden, switches, {requests[i]}).front()), 0);
    if (!requests[i].empty()) {
      EXPECT_GT(relative_l2(drawn[i], drawn[0]), 0.01);
    }
  }
}

TEST(LoraRequests, AreApart) {
  for (const char* switches : {"lossless", "lossless,bf16", "lossless,int8"}) {
    SCOPED_TRACE(switches);
    expect_requests_apart(DeviceKind::kCpu, switches);
  }
}

using GpuLoraRequests = GpuTest;

TEST_F(GpuLoraRequests, AreApart) {
  for (const char* switches : {"lossless", "lossless,bf16", "lossless,fp8"}) {
    SCOPED_TRACE(switches);
    expect_requests_apart(DeviceKind::kCuda, switches);
  }
}

}  // namespace
}  // namespace headroom
