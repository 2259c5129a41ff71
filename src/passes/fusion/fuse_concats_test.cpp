#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FuseConcats, JoinsConcatenationsOfNeighbours) {
  expect_rewrite("fuse-concats", R"(graph g {
      input %x: f32[1, 5, 12]
      input %m: f32[1, 2, 7]
    - %1: f32[1, 5, 4] = slice(%x) {axis = 2, start = 4, size = 4} @ k
    - %2: f32[1, 5, 3] = slice(%x) {axis = 2, start = 8, size = 3} @ v
    - %3: f32[1, 2, 4] = slice(%m) {axis = 2, start = 0, size = 4} @ k
    - %4: f32[1, 2, 3] = slice(%m) {axis = 2, start = 4, size = 3} @ v
    + %1: f32[1, 2, 7] = slice(%m) {axis = 2, start = 0, size = 7} @ attn
    + %2: f32[1, 5, 7] = slice(%x) {axis = 2, start = 4, size = 7} @ attn
    - %5: f32[1, 7, 4] = concat(%3, %1) {axis = 1} @ attn
    + %7: f32[1, 7, 7] = concat(%1, %2) {axis = 1} @ attn
    - %6: f32[1, 7, 3] = concat(%4, %2) {axis = 1} @ attn
    + %5: f32[1, 7, 4] = slice(%7) {axis = 2, start = 0, size = 4} @ attn
    + %6: f32[1, 7, 3] = slice(%7) {axis = 2, start = 4, size = 3} @ attn
      output k = %5
      output v = %6
    })",
                 1);
}

TEST(FuseConcats, LeavesWhatIsNotASliceAndItsNext) {
  // Elements between; the latter before the former; of another value; along the slices' axis; of one more.
  const auto expect_left = [](const std::string& second_x, const std::string& second_m, const std::string& concats) {
    SCOPED_TRACE(second_x + second_m + concats);
    expect_unchanged("fuse-concats",
                     "graph g {\n"
                     "  input %x: f32[1, 5, 12]\n"
                     "  input %m: f32[1, 5, 8]\n"
                     "  %1: f32[1, 5, 4] = slice(%x) {axis = 2, start = 4, size = 4}\n"
                     "  %2: f32[1, 5, 4] = slice(" +
                         second_x +
                         ", size = 4}\n"
                         "  %3: f32[1, 5, 4] = slice(%m) {axis = 2, start = 0, size = 4}\n"
                         "  %4: f32[1, 5, 4] = slice(" +
                         second_m + ", size = 4}\n" + concats + "  output k = %5\n  output v = %6\n}");
  };
  const std::string along_tokens =
      "  %5: f32[1, 10, 4] = concat(%1, %3) {axis = 1}\n  %6: f32[1, 10, 4] = concat(%2, %4) {axis = 1}\n";
  const std::string next_of_x = "%x) {axis = 2, start = 8", next_of_m = "%m) {axis = 2, start = 4";
  expect_left("%x) {axis = 2, start = 7", next_of_m, along_tokens);
  expect_left("%x) {axis = 2, start = 0", next_of_m, along_tokens);
  expect_left(next_of_x, "%x) {axis = 2, start = 4", along_tokens);
  expect_left(next_of_x, next_of_m,
              "  %5: f32[1, 5, 8] = concat(%1, %3) {axis = 2}\n  %6: f32[1, 5, 8] = concat(%2, %4) {axis = 2}\n");
  expect_left(next_of_x, next_of_m,
              "  %5: f32[1, 10, 4] = concat(%1, %3) {axis = 1}\n  %6: f32[2, 5, 4] = concat(%2, %4) {axis = 0}\n");
  expect_left(next_of_x, next_of_m,
              "  %5: f32[1, 10, 4] = concat(%1, %3) {axis = 1}\n  %6: f32[1, 15, 4] = concat(%2, %4, %4) {axis = 1}\n");
}

}  // namespace
}  // namespace headroom
