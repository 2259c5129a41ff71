#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FuseUpsample, GivesTheSmallImageAFilterForEachParity) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[2, 3, 5, 4]
      param %w: f32[2, 3, 3, 3]
      param %b: f32[2]
      %0: f32[2, 3, 10, 8] = resize2d(%x) {size = [10, 8]} @ up
      %1: f32[2, 2, 10, 8] = conv2d(%0, %w, %b) {padding = [1, 1, 1, 1]} @ conv
      output y = %1
    })");
  const Graph before = graph;
  EXPECT_EQ(run_pass("fuse-upsample", graph).rewrites, 1);
  const Node& last = graph.nodes().back();
  EXPECT_EQ(last.op, Op::kConvTranspose2d);
  EXPECT_EQ(last.inputs[0], graph.find(ValueKind::kInput, "x"));
  EXPECT_EQ(graph.type(last.inputs[1]).shape, (Shape{3, 2, 4, 4}));
  EXPECT_LE(distance(interpret_on_random(graph, 5), interpret_on_random(before, 5)), 1e-12);
}

TEST(FuseUpsample, TakesNearestDoublingBeforeA3x3FilterOfOnePixelsPaddingOnly) {
  const auto unchanged = [](std::string_view resize, std::string_view size, std::string_view how) {
    expect_unchanged("fuse-upsample", fmt::format(R"(graph g {{
      input %x: f32[1, 3, 5, 4]
      param %w: f32[2, 3, 3, 3]
      %0: f32[1, 3, {0}] = resize2d(%x) {{size = [{0}]{1}}} @ up
      %1: f32[1, 2, {2}
      output y = %1
    }})",
                                                  size, resize, how));
  };
  unchanged(R"(, mode = "bilinear")", "10, 8", "10, 8] = conv2d(%0, %w) {padding = [1, 1, 1, 1]}");
  unchanged("", "15, 8", "15, 8] = conv2d(%0, %w) {padding = [1, 1, 1, 1]}");
  unchanged("", "10, 8", "8, 6] = conv2d(%0, %w)");
  unchanged("", "10, 8", "5, 4] = conv2d(%0, %w) {padding = [1, 1, 1, 1], stride = [2, 2]}");
}

TEST(FuseUpsample, LeavesALargeImageThatIsAlsoReadByOthers) {
  expect_unchanged("fuse-upsample", R"(graph g {
      input %x: f32[1, 3, 5, 4]
      param %w: f32[2, 3, 3, 3]
      %0: f32[1, 3, 10, 8] = resize2d(%x) {size = [10, 8]} @ up
      %1: f32[1, 2, 10, 8] = conv2d(%0, %w) {padding = [1, 1, 1, 1]} @ conv
      output y = %1
      output large = %0
    })");
}

}  // namespace
}  // namespace headroom
