#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/test_util.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

constexpr std::string_view kMlp = R"(graph g {
      input %x: f32[3, 4]
      param %w: bf16[4, 4]
      %1: f32[4, 4] = cast(%w) {dtype = f32} @ fc
      %2: f32[3, 4] = linear(%x, %1) @ fc
      %3: f32[3, 4] = gelu_tanh(%2) @ fc
      output y = %3
    })";

std::vector<std::string_view> names_of(const std::vector<PassRecord>& records) {
  std::vector<std::string_view> names;
  names.reserve(records.size());
  for (const PassRecord& record : records) names.push_back(record.name);
  return names;
}

const PassRecord& record_of(const OptimizeReport& report, std::string_view pass) {
  const auto record = std::ranges::find(report.passes, pass, &PassRecord::name);
  HR_CHECK(record != report.passes.end());
  return *record;
}

TEST(Pipeline, NamesAreUniqueAndSwitchesExistInPipelineOrder) {
  std::set<std::string_view> names;
  std::ptrdiff_t last = -1;
  for (const Pass& pass : pipeline()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    // Caches come first, on the model as written, and last among the switches, since the other switches do not change
    // the image.
    if (pass.rewrite_as != nullptr) continue;
    // Some passes of `fuse` and `hoist` absorb ops that precision has left.
    constexpr std::array<std::string_view, 6> kBehindPrecision = {
        "fuse-token-epilogue", "hoist-scales", "fuse-shortcut", "fuse-group-norm", "repeat-choices", "fuse-rows"};
    if (pass.switch_name.empty() || std::ranges::find(kBehindPrecision, pass.name) != kBehindPrecision.end()) continue;
    const auto place = std::ranges::find(all_switches(), pass.switch_name, &SwitchInfo::name) - all_switches().begin();
    EXPECT_LT(place, std::ssize(all_switches())) << pass.switch_name;
    EXPECT_LE(last, place) << pass.name << " comes after passes of a later switch";
    last = place;
  }
}

/// Notes name the nodes that a pass left unchanged, even those of no module: here every matmul, and a sum that cannot
/// be joined.
TEST(Optimize, NotesNameEveryNode) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[1, 128, 32]
      param %w0: f32[32, 32]
      param %w1: f32[32, 32]
      param %w2: f32[32, 32]
      %1: f32[1, 128, 32] = linear(%x, %w0)
      %2: f32[1, 128, 32] = linear(%1, %w1)
      %3: f32[1, 128, 32] = linear(%2, %w2)
      %4: f32[1, 128, 32] = softmax(%3)
      %5: f32[1, 32] = sum(%4) {axes = [1]}
      output y = %5
    })");
  constexpr Target kHopper{.device = DeviceKind::kCuda, .compute_capability = 90, .has_compiler = true};
  const OptimizeReport report = optimize(graph, SwitchSet::parse("fuse,fp8"), kHopper);
  EXPECT_THAT(
      record_of(report, "fp8").notes,
      ElementsAre(
          AllOf(Field(&PassNote::reason, HasSubstr("first layer")), Field(&PassNote::nodes, ElementsAre("linear"))),
          AllOf(Field(&PassNote::reason, HasSubstr("last layer")), Field(&PassNote::nodes, ElementsAre("linear")))));
  EXPECT_THAT(record_of(report, "fuse-rows").notes, ElementsAre(Field(&PassNote::nodes, ElementsAre("sum"))));
}

TEST(Optimize, RunsPassesWithoutSwitchAndThoseOfSwitchesThatAreOn) {
  Graph graph = parse_graph(kMlp);
  EXPECT_THAT(names_of(optimize(graph, {}, kCapableCpu).passes),
              ElementsAre("write-out", "inline-loops", "weights-first", "dead-rows", "simplify-casts", "dead-code",
                          "merge-rows"));

  graph = parse_graph(kMlp);
  const OptimizeReport report =
      optimize(graph, SwitchSet::parse("fuse"), kCapableCpu, {.disabled = {}, .verify = true});
  EXPECT_THAT(names_of(report.passes),
              ElementsAre("write-out", "inline-loops", "weights-first", "dead-rows", "fuse-upsample", "fuse-patterns",
                          "fuse-epilogue", "fuse-qkv", "fuse-concats", "fuse-qk-norm-rope", "fuse-attention-scale",
                          "fuse-common-subexpressions", "fuse-conditioning", "simplify-casts", "dead-code",
                          "fuse-token-epilogue", "merge-rows", "fuse-shortcut", "fuse-group-norm", "repeat-choices",
                          "fuse-rows"));
  const PassRecord& epilogues = record_of(report, "fuse-epilogue");
  EXPECT_EQ(epilogues.switch_name, "fuse");
  EXPECT_EQ(epilogues.rewrites, 1);
  EXPECT_GT(epilogues.milliseconds, 0);
  EXPECT_EQ(record_of(report, "fuse-qkv").rewrites, 0);
  EXPECT_TRUE(report.declined.empty());
}

TEST(Optimize, FoldsTheCheckpointsOwnBf16Back) {
  Graph graph = parse_graph(kMlp);
  static_cast<void>(optimize(graph, SwitchSet::parse("fuse,bf16"), kCapableCpu));
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(R"(graph g {
      input %x: f32[3, 4]
      param %w: bf16[4, 4]
      %1: bf16[3, 4] = cast(%x) {dtype = bf16} @ fc
      %2: bf16[3, 4] = linear(%1, %w) {epilogue = gelu_tanh(sum)} @ fc
      %3: f32[3, 4] = cast(%2) {dtype = f32} @ fc
      output y = %3
    })")));
}

TEST(Optimize, LeavesOutDisabledPasses) {
  Graph graph = parse_graph(kMlp);
  const OptimizeReport report =
      optimize(graph, SwitchSet::parse("fuse"), kCapableCpu, {.disabled = {"fuse-epilogue", "dead-code"}});
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(kMlp)));
  for (const PassRecord& record : report.passes) {
    EXPECT_NE(record.name, "fuse-epilogue");
    EXPECT_NE(record.name, "dead-code");
  }
}

TEST(Optimize, RefusesToDisableAPassThatDoesNotExist) {
  Graph graph = parse_graph(kMlp);
  try {
    static_cast<void>(optimize(graph, {}, kCapableCpu, {.disabled = {"fuse-everything"}}));
    FAIL() << "an unknown pass was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("'fuse-everything': there are write-out, inline-loops, fbcache, teacache, "
                                        "meancache, weights-first, dead-rows"));
  }
}

TEST(Optimize, SaysWhyASwitchDidNothing) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[3]
      %1: f32[3] = silu(%x)
      output y = %1
    })");
  const OptimizeReport report = optimize(graph, SwitchSet::parse("arena,fuse,bf16,steps=4"), kCapableCpu);
  ASSERT_EQ(report.declined.size(), 2U) << "switches without passes are not the runner's business";
  EXPECT_EQ(report.declined[0].switch_name, "fuse");
  EXPECT_EQ(report.declined[0].reason, "no pattern it rewrites occurs in this graph");
  EXPECT_EQ(report.declined[1].switch_name, "bf16");
  EXPECT_EQ(report.declined[1].reason, "the graph has no product in f32");

  const OptimizeReport disabled = optimize(graph, SwitchSet::parse("bf16"), kCapableCpu, {.disabled = {"bf16"}});
  ASSERT_EQ(disabled.declined.size(), 1U);
  EXPECT_EQ(disabled.declined[0].reason, "all of its passes are disabled");
}

TEST(Optimize, VerifiesTheGraphItIsGiven) {
  Graph graph = parse_graph(kMlp);
  std::vector<Node> nodes = graph.take_nodes();
  std::swap(nodes[1], nodes[2]);  // gelu before the linear that it reads
  graph.set_nodes(std::move(nodes));
  try {
    static_cast<void>(optimize(graph, {}, kCapableCpu, {.disabled = {}, .verify = true}));
    FAIL() << "a broken graph was accepted";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("before the first pass: "));
  }
}

}  // namespace
}  // namespace headroom
