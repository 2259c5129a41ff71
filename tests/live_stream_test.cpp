// LiveStreamUNet against its definition in PyTorch in double precision (tests/goldens/make_live_stream.py): its passes, and streams of
// frames with all that is kept from one to the next, on both devices' kernels with and without switches.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "component_golden.hpp"
#include "ir/op_definition.hpp"
#include "models/unets/live_stream_unet.hpp"
#include "passes/pass.hpp"
#include "pipelines/schedules/diffusion_schedule.hpp"
#include "pipelines/streams/live_stream_frame.hpp"

namespace headroom {
namespace {

constexpr double kExact = 1e-12;       // relative L2, of the graph in double precision
constexpr double kFp32Error = 5e-6;    // of a pass
constexpr double kStreamError = 1e-5;  // of frames that are each made of those before
constexpr double kNarrowRatio = 1.1;   // of PyTorch's own error in 16 bits
constexpr std::int64_t kSteps = 2;     // of a frame in the goldens

constexpr const char* kLiveStreams[] = {"three-levels", "two-layers"};
constexpr const char* kPasses[] = {"step", "blend", "remember"};

ComponentGolden open_golden(const std::string& name, DeviceKind device) {
  return ComponentGolden("live_stream/" + name, device);
}

SamplerTables ddim_tables(std::int64_t steps) {
  return make_sampler_tables(Sampler::kDdim, DiffusionSchedule{.rules = DiffusionRules::kDdim,
                                                               .prediction = Prediction::kV,
                                                               .spacing = TimestepSpacing::kTrailing}
                                                 .schedule(steps));
}

/// Frame i of [frames, ...].
HostTensor frame_of(const HostTensor& frames, std::int64_t i) {
  HostTensor frame(DType::kF32, Shape(frames.shape().dims().subspan(1)));
  for (std::int64_t k = 0; k < frame.numel(); ++k) frame.set(k, frames.at(i * frame.numel() + k));
  return frame;
}

/// What is shown of the golden's frames: the relative L2 error of all together.
double run_stream(ComponentGolden& golden, const std::string& switches) {
  const Component& component = golden.component();
  const SamplerTables sampler = ddim_tables(kSteps);
  const HostTensor frames = golden.golden().read("frames"), expected = golden.golden().read("shown");
  const HostTensor first = frame_of(frames, 0);
  const Compiled compiled = compile(build_live_stream_frame(parse_live_stream_unet_config(component.config),
                                                            first.shape(), sampler, component.params()),
                                    SwitchSet::parse(switches), golden.backend().properties().target);
  Session session(compiled.program, golden.weights(), golden.backend());
  HostTensor shown(DType::kF32, frames.shape());
  set_live_stream_inputs(session, sampler, golden.golden().read("noise"));
  for (int stream = 0; stream < 2; ++stream) {  // the second begins where the first has left its states
    start_live_stream(session, first, {});
    for (std::int64_t i = 0; i < frames.shape()[0]; ++i) {
      session.set_input("frame", frame_of(frames, i));
      session.run();
      const HostTensor frame = session.output("shown");
      for (std::int64_t k = 0; k < frame.numel(); ++k) shown.set(i * frame.numel() + k, frame.at(k));
    }
  }
  return relative_l2(shown, expected);
}

void expect_in_fp32(DeviceKind device) {
  for (const char* name : kLiveStreams) {
    ComponentGolden golden = open_golden(name, device);
    for (const char* switches : {"baseline", "arena", "fuse", "channels-last", "flash,fuse", "lossless"})
      for (const char* pass : kPasses)
        EXPECT_LE(golden.run(pass, switches).ours, kFp32Error) << name << ' ' << pass << ' ' << switches;
    for (const char* switches : {"baseline", "hoist", "lossless"})
      EXPECT_LE(run_stream(golden, switches), kStreamError) << name << ' ' << switches;
  }
}

void expect_in_16_bits(DeviceKind device, const std::string& dtype) {
  for (const char* name : kLiveStreams) {
    ComponentGolden golden = open_golden(name, device);
    for (const char* pass : kPasses) {
      const ComponentGolden::Errors errors = golden.run(pass, "lossless," + dtype, dtype);
      EXPECT_LE(errors.ours, kNarrowRatio * errors.pytorch) << name << ' ' << pass;
    }
    const double own = golden.golden().read("shown_" + dtype + "_error").at(0);
    EXPECT_LE(run_stream(golden, "lossless," + dtype), kNarrowRatio * own) << name;
  }
}

TEST(LiveStream, IsItsDefinitionExactly) {
  for (const char* name : kLiveStreams) {
    ComponentGolden golden = open_golden(name, DeviceKind::kCpu);
    for (const char* pass : kPasses) EXPECT_LE(golden.interpreted(pass), kExact) << name << ' ' << pass;
  }
}
TEST(LiveStream, IsItsDefinitionInFp32) { expect_in_fp32(DeviceKind::kCpu); }
TEST(LiveStream, IsAsGoodAsPyTorchInBf16) { expect_in_16_bits(DeviceKind::kCpu, "bf16"); }

class GpuLiveStream : public GpuTest {};

TEST_F(GpuLiveStream, IsItsDefinitionInFp32) { expect_in_fp32(DeviceKind::kCuda); }
TEST_F(GpuLiveStream, IsAsGoodAsPyTorchInBf16) { expect_in_16_bits(DeviceKind::kCuda, "bf16"); }
TEST_F(GpuLiveStream, IsAsGoodAsPyTorchInFp16) { expect_in_16_bits(DeviceKind::kCuda, "fp16"); }

/// Of the large one, computing in f32.
Graph large_frame(std::int64_t steps) {
  return build_live_stream_frame(parse_live_stream_unet_config(live_stream_unet_config()), {1, 3, 64, 64},
                                 ddim_tables(steps), {.dtype = [](std::string_view) { return DType::kF16; }});
}

TEST(LiveStream, ComputesOnceAFrameWhatNoStepChanges) {
  Graph graph = large_frame(20);
  const OptimizeReport report = optimize(graph, SwitchSet::parse("hoist"), Target{});
  EXPECT_TRUE(report.declined.empty());
  std::vector<std::string> in_loop;
  for (const Node& node : graph.nodes())
    if (node.region != kTopRegion && is_contraction(node.op)) in_loop.push_back(node.path);
  ASSERT_FALSE(in_loop.empty());
  for (const char* once : {"time_embedding", "time_emb_proj", "add_k_proj", "add_v_proj"})
    for (const std::string& path : in_loop) EXPECT_THAT(path, testing::Not(testing::HasSubstr(once)));
}

/// What modules of the large one hold, and what their products compute.
class ModuleTable {
 public:
  void add_pass(const Graph& graph, const std::vector<std::string>& totals) {
    for (const ValueId param : graph.values_of(ValueKind::kParam)) {
      const std::string& name = graph.value(param).name;
      const auto count = static_cast<double>(graph.type(param).shape.numel());
      if (counted_.insert(name).second) row(module_of(name)).parameters += count;
      for (const std::string& total : totals)
        if (counted_.insert(total + name).second) row(total).parameters += count;
    }
    for (const Node& node : graph.nodes()) {
      if (!is_contraction(node.op)) continue;
      std::vector<TensorType> in, out;
      for (const ValueId input : node.inputs) in.push_back(graph.type(input));
      for (const ValueId result : node.results) out.push_back(graph.type(result));
      const double flops = definition_of(node.op).flops.count(node.attributes, in, out);
      row(module_of(node.path)).flops += flops;
      for (const std::string& total : totals) row(total).flops += flops;
    }
  }

  /// How the document has them, in fp16.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const Row& row : rows_)
      lines.push_back(fmt::format("| {} | {:.2f} M | {:.1f} MB | {:.2f} GFLOP |", row.name, row.parameters / 1e6,
                                  2 * row.parameters / 1e6, row.flops / 1e9));
    return lines;
  }

 private:
  struct Row {
    std::string name;
    double parameters = 0, flops = 0;
  };

  /// "`down_blocks.0`" of what is in it; the last norm belongs to the convolution behind it.
  static std::string module_of(const std::string& path) {
    const std::size_t first = path.find('.');
    std::string head = path.substr(0, first);
    if (head.ends_with("_blocks")) head = path.substr(0, path.find('.', first + 1));
    if (head == "conv_norm_out") head = "conv_out";
    return "`" + head + "`";
  }
  Row& row(const std::string& name) {
    const auto found = std::ranges::find(rows_, name, &Row::name);
    return found != rows_.end() ? *found : rows_.emplace_back(Row{.name = name});
  }

  std::vector<Row> rows_;
  std::set<std::string> counted_;
};

TEST(LiveStream, IsWhatItsTableSays) {
  const ComponentClass kind = live_stream_unet_class();
  const nlohmann::json config = live_stream_unet_config();
  ModuleTable table;
  for (const ComponentPass& pass : kind.passes) {
    const std::vector<std::string> totals =
        pass.name == "step" ? std::vector<std::string>{"a call", "all"} : std::vector<std::string>{"all"};
    table.add_pass(pass.build(config, pass.shapes(config, kind.own_size(config)),
                              {.dtype = [](std::string_view) { return DType::kF16; }}),
                   totals);
  }
  const std::string document = read_file(source_dir(kSourceDir) / "docs/live_stream_unet.md");
  for (const std::string& line : table.lines()) EXPECT_NE(document.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace headroom
