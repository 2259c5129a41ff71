// T5's encoder, CLIP's and language models against transformers in double precision
// (tests/goldens/make_text_encoders.py and make_language_models.py), on both devices' kernels with and without switches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/safetensors.hpp"
#include "ir/interpreter.hpp"
#include "passes/pass.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr double kExact = 1e-12;     // relative L2, of the graph in double precision
constexpr double kFp32Error = 3e-6;  // transformers in fp32 is within 3.1e-7 of the goldens
constexpr double kBf16Ratio = 1.3;   // of transformers' own error in bf16

struct Case {
  const char* folder;
  const char* pass;
  std::vector<std::string> inputs;
  std::string suffix = {};  ///< of the outputs' names in the golden
};
const std::vector<Case> kCases = {
    {"t5", "encode", {"input_ids"}},
    {"t5", "encode", {"input_ids", "attention_mask"}, "_masked"},
    {"t5-relu", "encode", {"input_ids"}},
    {"t5-relu", "encode", {"input_ids", "attention_mask"}, "_masked"},
    {"clip-l", "encode", {"input_ids"}},
    {"clip-l", "hidden-states", {"input_ids"}},
    {"clip-g", "encode", {"input_ids"}},
    {"clip-g", "hidden-states", {"input_ids"}},
    {"clip-l", "penultimate", {"input_ids"}},
    {"clip-g", "penultimate", {"input_ids"}},
    {"qwen2.5-vl", "encode", {"input_ids"}},
    {"qwen2.5-vl-nested", "encode", {"input_ids"}},
    {"qwen3", "encode", {"input_ids"}},
    {"qwen2.5-vl", "hidden-states", {"input_ids"}},
    {"qwen3", "hidden-states", {"input_ids"}},
    {"gpt2", "forward", {"input_ids"}},
    {"gpt2-untied", "forward", {"input_ids"}},
    {"qwen3-stacked", "stacked-states", {"input_ids", "text_tokens"}},
    {"qwen3-vl-stacked", "stacked-states", {"input_ids", "text_tokens"}},
};

class TextGolden {
 public:
  explicit TextGolden(const Case& of)
      : case_(of),
        folder_(source_dir(kSourceDir) / "tests/goldens/text" / of.folder),
        component_(open_component(folder_.string())),
        golden_(SafetensorsFile::open(folder_ / "golden.safetensors")) {
    for (const std::string& input : of.inputs) {
      given_.emplace(input, golden_.entry(input).shape);
      inputs_.emplace(input, convert(golden_.read(input), DType::kI32));
    }
  }

  [[nodiscard]] Graph graph() const { return component_.build(pass_named(*component_.kind, case_.pass), given_); }

  /// The largest error of an output in the interpreter.
  [[nodiscard]] double interpreted() const {
    const Graph plain = graph();
    NamedTensors params;
    for (const ValueId param : plain.values_of(ValueKind::kParam))
      params.emplace(plain.value(param).name, component_.checkpoint.read(plain.value(param).name));
    const OracleResult result = interpret(plain, inputs_, params);
    double most = 0;
    for (const auto& [name, tensor] : result.outputs) most = std::max(most, relative_l2(tensor, expected(name)));
    return most;
  }

  /// The largest error of an output on a device, in units of what is allowed for it.
  [[nodiscard]] double run(DeviceKind device, const std::string& switches, bool in_bf16) const {
    const std::unique_ptr<Backend> backend = make_backend(device);
    WeightStore weights(*backend, component_.checkpoint);
    const Compiled compiled = compile(graph(), SwitchSet::parse(switches), backend->properties().target);
    Session session(compiled.program, weights, *backend);
    for (const auto& [name, tensor] : inputs_) session.set_input(name, tensor);
    for (int i = 0; i < 3; ++i) session.run();  // with `graph` the second is recorded and the third replayed
    double most = 0;
    for (const Output& output : compiled.program->graph.outputs()) {
      const double own = golden_.read(golden_name(output.name) + "_bf16_error").at(0);
      const double allowed = in_bf16 ? kBf16Ratio * own : kFp32Error;
      most = std::max(most, relative_l2(session.output(output.name), expected(output.name)) / allowed);
    }
    return most;
  }

 private:
  [[nodiscard]] std::string golden_name(const std::string& output) const {
    if (output != "penultimate_hidden_state") return output + case_.suffix;
    return "hidden_states." + std::to_string(component_.config.at("num_hidden_layers").get<int>() - 1);
  }
  [[nodiscard]] HostTensor expected(const std::string& output) const { return golden_.read(golden_name(output)); }

  const Case& case_;
  fs::path folder_;
  Component component_;
  SafetensorsFile golden_;
  InputShapes given_;
  NamedTensors inputs_;
};

void expect_in_fp32(DeviceKind device) {
  for (const Case& each : kCases)
    for (const char* switches : {"baseline", "arena", "fuse", "flash", "flash,fuse", "lossless"})
      EXPECT_LE(TextGolden(each).run(device, switches, false), 1)
          << each.folder << ' ' << each.pass << each.suffix << ' ' << switches;
}

void expect_in_bf16(DeviceKind device) {
  for (const Case& each : kCases)
    EXPECT_LE(TextGolden(each).run(device, "lossless,bf16", true), 1) << each.folder << ' ' << each.pass << each.suffix;
}

TEST(TextEncoders, AreTransformersInDoublePrecision) {
  for (const Case& each : kCases)
    EXPECT_LE(TextGolden(each).interpreted(), kExact) << each.folder << ' ' << each.pass << each.suffix;
}
TEST(TextEncoders, AreTransformersInFp32) { expect_in_fp32(DeviceKind::kCpu); }
TEST(TextEncoders, AreAsGoodAsTransformersInBf16) { expect_in_bf16(DeviceKind::kCpu); }

TEST(TextEncoders, RunTheirAttentionInOneKernel) {
  for (const Case& each : kCases) {
    const Target target{.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAvx2, .threads = 1};
    Graph graph = TextGolden(each).graph();
    static_cast<void>(optimize(graph, {}, target));  // without what nothing reads
    const auto softmaxes = std::ranges::count(graph.nodes(), Op::kSoftmax, &Node::op);
    static_cast<void>(optimize(graph, SwitchSet::parse("flash"), target));
    EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kAttention, &Node::op), softmaxes) << each.folder;
    EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kSoftmax, &Node::op), 0) << each.folder;
  }
}

/// With a tensor more than the encoder is made of.
std::string error_with(const std::string& folder, const std::string& tensor) {
  const fs::path from = source_dir(kSourceDir) / "tests/goldens/text" / folder;
  const TempFolder copy;
  fs::copy_file(from / "config.json", copy / "config.json");
  const SafetensorsFile whole = SafetensorsFile::open(from / "model.safetensors");
  std::map<std::string, HostTensor> tensors = {{tensor, HostTensor(DType::kI64, {1, 3})}};
  for (const auto& [name, entry] : whole.entries()) tensors.emplace(name, whole.read(name));
  write_safetensors(copy / "model.safetensors", tensors);
  return error_of([&] { static_cast<void>(open_component(copy.path().string())); });
}

TEST(TextEncoders, LeaveWhatElseCheckpointsHold) {
  EXPECT_EQ(error_with("t5", "decoder.block.0.layer.0.SelfAttention.q.weight"), "(no error)");
  EXPECT_EQ(error_with("t5", "encoder.embed_tokens.weight"), "(no error)");
  EXPECT_EQ(error_with("clip-l", "embeddings.position_ids"), "(no error)");
  EXPECT_EQ(error_with("clip-g", "text_model.embeddings.position_ids"), "(no error)");
  EXPECT_EQ(error_with("qwen2.5-vl", "model.visual.blocks.0.norm1.weight"), "(no error)");
  EXPECT_THAT(error_with("qwen3", "model.stranger"), HasSubstr("that the model does not know: model.stranger"));
  EXPECT_EQ(error_with("gpt2", "transformer.h.1.attn.bias"), "(no error)");
  EXPECT_EQ(error_with("gpt2", "lm_head.weight"), "(no error)");
  EXPECT_THAT(error_with("t5", "encoder.stranger"), HasSubstr("that the model does not know: encoder.stranger"));
}

class GpuTextEncoders : public GpuTest {};

TEST_F(GpuTextEncoders, AreTransformersInFp32) { expect_in_fp32(DeviceKind::kCuda); }
TEST_F(GpuTextEncoders, AreAsGoodAsTransformersInBf16) { expect_in_bf16(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
