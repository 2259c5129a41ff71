// Gradients of whole networks against PyTorch's in double precision (tests/goldens/make_gradients.py): in the interpreter, and
// by kernels in f32 with and without switches.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "autodiff/differentiate.hpp"
#include "backends/backend.hpp"
#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/safetensors.hpp"
#include "ir/builder.hpp"
#include "ir/interpreter.hpp"
#include "ir/verify.hpp"
#include "kernels/core/listed_kernels.hpp"
#include "passes/pass.hpp"
#include "passes/test_util.hpp"
#include "plan/choose.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

constexpr double kMostErrorInDouble = 1e-8;
constexpr double kMostErrorInF32 = 2e-5;   // or this many times the error of PyTorch in f32, if that is larger
constexpr double kOfPyTorch = 2;           // its error is one draw: other vector units sum in another order
constexpr double kMostErrorInBf16 = 6e-2;  // of all gradients together

constexpr Target kTrainingGpu{.device = DeviceKind::kCuda,
                              .compute_capability = 90,
                              .multiprocessors = 132,
                              .has_compiler = true,
                              .fusion = &kLibraryRules};

struct GradientCase {
  const char* golden;  ///< in tests/goldens/gradients
  const char* folder;
  const char* pass;
};
void PrintTo(const GradientCase& one, std::ostream* out) { *out << one.golden; }
constexpr GradientCase kGradientCases[] = {
    {"unet-sd15", "unets/sd15", "forward"},
    {"unet-sd2", "unets/sd2", "forward"},
    {"unet-sdxl", "unets/sdxl", "forward"},
    {"unet-pixel", "unets/pixel", "forward"},
    {"unet-pixel-scale-shift", "unets/pixel-scale-shift", "forward"},
    {"t5", "text/t5", "encode"},
    {"t5-relu", "text/t5-relu", "encode"},
    {"clip-l", "text/clip-l", "encode"},
    {"clip-g", "text/clip-g", "encode"},
    {"flux", "flux/tiny-guidance", "forward"},
    {"vae-encode", "vae/stable-diffusion", "encode"},
    {"vae-decode", "vae/stable-diffusion", "decode"},
    {"vae-tiny-encode", "vae/tiny", "encode"},
    {"vae-tiny-decode", "vae/tiny", "decode"},
};

constexpr std::size_t kPatterns = 8;

/// The length of a gradient, and the sums of its elements under fixed patterns of signs, as make_gradients.py has them.
using Condensed = std::array<double, 1 + kPatterns>;

std::uint64_t splitmix64(std::uint64_t index) {
  std::uint64_t state = (index + 1) * 0x9E3779B97F4A7C15;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EB;
  return state ^ (state >> 31);
}

Condensed condensed(const HostTensor& gradient) {
  Condensed sums{};
  for (std::int64_t i = 0; i < gradient.numel(); ++i) {
    const double value = gradient.at(i);
    const std::uint64_t signs = splitmix64(static_cast<std::uint64_t>(i));
    sums[0] += value * value;
    for (std::size_t k = 0; k < kPatterns; ++k) sums[1 + k] += (signs >> k & 1) != 0 ? -value : value;
  }
  sums[0] = std::sqrt(sums[0]);
  return sums;
}

/// The L2 error of a tensor: under random signs, the mean square of the sums of a difference is that of its length.
double gradient_error(const Condensed& made, const Condensed& expected) {
  double square = 0;
  for (std::size_t k = 1; k < made.size(); ++k) square += (made[k] - expected[k]) * (made[k] - expected[k]) / kPatterns;
  const double of_length = std::fabs(made[0] - expected[0]);
  return std::sqrt(square + of_length * of_length);
}

class GradientGolden {
 public:
  /// Under `forward_switches` the forward graph is optimized before its derivative is taken.
  explicit GradientGolden(const GradientCase& one, const std::string& forward_switches = "",
                          const Target& target = make_backend(DeviceKind::kCpu)->properties().target)
      : component_(open_component((source_dir(kSourceDir) / "tests/goldens" / one.folder).string())),
        golden_(SafetensorsFile::open(source_dir(kSourceDir) / "tests/goldens/gradients" /
                                      (std::string(one.golden) + ".safetensors"))) {
    InputShapes given;
    for (const auto& [name, entry] : golden_.entries())
      if (name.starts_with("input.")) given.emplace(name.substr(6), entry.shape);
    graph_ = component_.build(
        one.pass == std::string("forward") ? component_.kind->passes.front() : pass_named(*component_.kind, one.pass),
        given);
    if (!forward_switches.empty()) static_cast<void>(optimize(graph_, SwitchSet::parse(forward_switches), target));
    differentiate_half_square();
  }

  /// The tensors whose gradients are outputs of the graph, under their names in the golden.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const SafetensorsFile& golden() const { return golden_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }

  [[nodiscard]] NamedTensors interpreted() const {
    NamedTensors inputs, params;
    for (const ValueId input : graph_.values_of(ValueKind::kInput))
      inputs.emplace(name_of_value(input), input_of(input));
    for (const ValueId param : graph_.values_of(ValueKind::kParam))
      params.emplace(name_of_value(param), component_.checkpoint.read(name_of_value(param)));
    return interpret(graph_, inputs, params).outputs;
  }

  [[nodiscard]] NamedTensors run(DeviceKind device, const std::string& switches) const {
    const std::unique_ptr<Backend> backend = make_backend(device);
    WeightStore weights(*backend, component_.checkpoint);
    const Compiled compiled = compile(graph_, SwitchSet::parse(switches), backend->properties().target);
    Session session(compiled.program, weights, *backend);
    for (const ValueId input : graph_.values_of(ValueKind::kInput))
      session.set_input(name_of_value(input), input_of(input));
    for (int i = 0; i < 3; ++i) session.run();  // with `graph` the second is recorded and the third replayed
    NamedTensors outputs;
    for (const Output& output : graph_.outputs()) outputs.emplace(output.name, session.output(output.name));
    return outputs;
  }

  /// The largest relative L2 error of a gradient, in units of what is allowed beside PyTorch's own in f32, and where it
  /// is. A gradient that is 0 but for rounding, as that of the
  /// bias of an attention's keys, is compared with the largest one.
  [[nodiscard]] std::pair<double, std::string> error(const NamedTensors& outputs, double (*allowed)(double)) const {
    constexpr double kRounding = 1e-12;
    double largest = 0;
    for (const std::string& name : names_) largest = std::max(largest, expected_of(name)[0]);
    std::pair<double, std::string> worst;
    for (const std::string& name : names_) {
      const Condensed expected = expected_of(name);
      const double scale = expected[0] < kRounding * largest ? largest : expected[0];
      const double most = allowed(golden_.read("gradient." + name).at(expected.size())) * scale;
      const double error = gradient_error(condensed(outputs.at("gradient." + name)), expected) / most;
      if (!(error <= worst.first)) worst = {error, name};
    }
    return worst;
  }

  /// The error of all gradients together, relative to their length.
  [[nodiscard]] double whole_error(const NamedTensors& outputs) const {
    double errors = 0, lengths = 0;
    for (const std::string& name : names_) {
      const Condensed expected = expected_of(name);
      const double error = gradient_error(condensed(outputs.at("gradient." + name)), expected);
      errors += error * error;
      lengths += expected[0] * expected[0];
    }
    return std::sqrt(errors / lengths);
  }

 private:
  /// The loss is half the sum of the squares of all outputs.
  void differentiate_half_square() {
    Builder builder(graph_);
    const std::vector<Output> outputs(graph_.outputs().begin(), graph_.outputs().end());
    ValueId loss = kNoValue;
    for (const Output& output : outputs) {
      std::vector<std::int64_t> axes;
      for (int axis = 0; axis < builder.shape(output.value).rank(); ++axis) axes.push_back(axis);
      const ValueId made = builder.cast(output.value, DType::kF32);
      const ValueId sum = builder.mul_scalar(builder.sum(builder.mul(made, made), axes), 0.5);
      loss = loss == kNoValue ? sum : builder.add(loss, sum);
    }
    std::vector<ValueId> wrt;
    for (const ValueKind kind : {ValueKind::kParam, ValueKind::kInput})
      for (const ValueId value : graph_.values_of(kind)) {
        if (!golden_.has("gradient." + name_of_value(value))) continue;
        wrt.push_back(read_in_f32(value));
        names_.push_back(name_of_value(value));
      }
    const std::vector<ValueId> gradients = differentiate(builder, loss, wrt);
    graph_.add_output("loss", loss);
    for (std::size_t i = 0; i < gradients.size(); ++i) graph_.add_output("gradient." + names_[i], gradients[i]);
    verify(graph_);
  }

  /// The value, or its cast if a checkpoint stores fewer bits: the gradient of these would be rounded to as many.
  [[nodiscard]] ValueId read_in_f32(ValueId value) const {
    if (graph_.type(value).dtype == DType::kF32) return value;
    for (const Node& node : graph_.nodes())
      if (std::ranges::count(node.inputs, value) > 0 && (node.op == Op::kReshape || node.op == Op::kCast))
        return read_in_f32(node.results[0]);
    return value;
  }
  [[nodiscard]] Condensed expected_of(const std::string& name) const {
    Condensed expected{};
    const HostTensor golden = golden_.read("gradient." + name);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = golden.at(static_cast<std::int64_t>(i));
    return expected;
  }
  [[nodiscard]] const std::string& name_of_value(ValueId value) const { return graph_.value(value).name; }
  [[nodiscard]] HostTensor input_of(ValueId input) const {
    return convert(golden_.read("input." + name_of_value(input)), graph_.type(input).dtype);
  }

  Component component_;
  SafetensorsFile golden_;
  Graph graph_;
  std::vector<std::string> names_;
};

class GradientsOf : public testing::TestWithParam<GradientCase> {};

TEST_P(GradientsOf, AreThoseOfPyTorchInDoublePrecision) {
  const GradientGolden golden(GetParam());
  std::size_t count = 0;
  for (const auto& [name, entry] : golden.golden().entries()) count += name.starts_with("gradient.") ? 1 : 0;
  EXPECT_EQ(golden.names().size(), count) << "every tensor of the golden is one of the graph";
  const NamedTensors outputs = golden.interpreted();
  EXPECT_NEAR(outputs.at("loss").at(0) / golden.golden().read("loss").at(0), 1, kMostErrorInDouble);
  const auto [error, name] = golden.error(outputs, [](double /*of_pytorch*/) { return kMostErrorInDouble; });
  EXPECT_LE(error, 1) << name;
}

TEST_P(GradientsOf, AreThoseOfPyTorchInF32) {
  const GradientGolden golden(GetParam());
  for (const char* switches : {"baseline", "lossless"}) {
    const auto [error, name] = golden.error(golden.run(DeviceKind::kCpu, switches), [](double of_pytorch) {
      return std::max(kMostErrorInF32, kOfPyTorch * of_pytorch);
    });
    EXPECT_LE(error, 1) << name << ' ' << switches;
  }
}

/// The outputs of a program without params on a CPU, for inputs of ones, or of zeros if they are integers.
NamedTensors run_on_ones(const Graph& graph, Backend& backend, const std::string& switches) {
  const Compiled compiled = compile(graph, SwitchSet::parse(switches), backend.properties().target);
  WeightStore constants(backend);
  Session session(compiled.program, constants, backend);
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const TensorType& type = graph.type(input);
    HostTensor tensor(type.dtype, type.shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, is_float(type.dtype) ? 1 : 0);
    session.set_input(graph.value(input).name, tensor);
  }
  session.run();
  NamedTensors outputs;
  for (const Output& output : graph.outputs()) outputs.emplace(output.name, session.output(output.name));
  return outputs;
}

// In bf16, 256 + 1 is 256: a sum that is rounded in between stops growing there.
TEST(GradientsIn16Bits, AreSummedInF32) {
  constexpr std::int64_t kRows = 4096, kColumns = 8;
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  if (backend->properties().target.cpu_isa < CpuIsa::kAvx512) GTEST_SKIP() << "bf16 declines on this CPU";
  Graph graph("rows of ones");
  Builder builder(graph);
  const auto input = [&](const char* name, const Shape& shape) { return graph.add_input(name, {DType::kBF16, shape}); };
  const ValueId x = input("x", {kRows, kColumns});
  const ValueId ids = graph.add_input("ids", {DType::kI32, {kRows}});
  const std::map<std::string, ValueId> summed = {
      {"added", input("added", {kColumns})},         {"factor", input("factor", {kColumns})},
      {"table", input("table", {1, kColumns})},      {"weight", input("weight", {kColumns, kColumns})},
      {"bias", input("bias", {kColumns})},           {"norm_weight", input("norm_weight", {kColumns})},
      {"norm_bias", input("norm_bias", {kColumns})}, {"row", input("row", {1, kColumns})}};
  const ValueId normed =
      builder.layer_norm(builder.mul(x, builder.constant({-1, 1, -1, 1, -1, 1, -1, 1}, {8}, DType::kBF16)), 0,
                         {.weight = summed.at("norm_weight"), .bias = summed.at("norm_bias")});
  ValueId loss = kNoValue;
  for (const ValueId y :
       {builder.add(x, summed.at("added")), builder.mul(x, summed.at("factor")),
        builder.gather(summed.at("table"), ids), builder.linear(x, summed.at("weight"), {.bias = summed.at("bias")}),
        normed, builder.broadcast(summed.at("row"), {kRows, kColumns})}) {
    const ValueId sum = builder.sum(builder.cast(y, DType::kF32), {0, 1});
    loss = loss == kNoValue ? sum : builder.add(loss, sum);
  }
  // By an input, so that the rows of ones are none that a weight store makes before the program runs.
  loss = builder.mul(loss, graph.add_input("scale", {DType::kF32, Shape{}}));
  std::vector<ValueId> wrt;
  for (const auto& [name, value] : summed) wrt.push_back(value);
  const std::vector<ValueId> gradients = differentiate(builder, loss, wrt);
  std::size_t next = 0;
  for (const auto& [name, value] : summed) graph.add_output(name, gradients[next++]);
  graph.add_output("loss", loss);  // which reads every input

  for (const char* switches : {"baseline", "lossless"})
    for (const auto& [name, made] : run_on_ones(graph, *backend, switches))
      for (std::int64_t i = 0; i < made.numel(); ++i)
        EXPECT_TRUE(name == "loss" || std::fabs(made.at(i)) == kRows) << name << ' ' << i << ' ' << switches;
}

// The order of training: attention as one op and the dtypes first, then the derivative, then all other passes.
TEST(GradientsIn16Bits, StayNearThoseInDoublePrecision) {
  if (make_backend(DeviceKind::kCpu)->properties().target.cpu_isa < CpuIsa::kAvx512)
    GTEST_SKIP() << "bf16 declines on this CPU";
  for (const GradientCase& one : kGradientCases) {
    if (one.golden == std::string_view("unet-sdxl")) continue;  // even f32 loses a factor of 500 of its digits there
    const GradientGolden golden(one, "flash,bf16");
    for (const char* switches : {"baseline", "lossless"})
      EXPECT_LE(golden.whole_error(golden.run(DeviceKind::kCpu, switches)), kMostErrorInBf16)
          << one.golden << ' ' << switches;
  }
}

// Planning needs no GPU: each kernel says what it takes.
TEST_P(GradientsOf, HaveKernelsForEveryOpOnAGpu) {
  const std::vector<const Kernel*> kernels = listed_cuda_kernels();
  if (kernels.empty()) GTEST_SKIP() << "built without CUDA";
  for (const char* forward : {"", "flash,bf16", "flash,fp16"})
    for (const char* switches : {"baseline", "lossless"}) {
      Graph graph = GradientGolden(GetParam(), forward, kTrainingGpu).graph();
      static_cast<void>(optimize(graph, SwitchSet::parse(switches), kTrainingGpu));
      EXPECT_NO_THROW(static_cast<void>(choose_kernels(graph, find_weight_values(graph), kTrainingGpu, kernels, {})))
          << forward << ' ' << switches;
    }
}

INSTANTIATE_TEST_SUITE_P(Networks, GradientsOf, testing::ValuesIn(kGradientCases), [](const auto& tested) {
  std::string name = tested.param.golden;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace headroom
