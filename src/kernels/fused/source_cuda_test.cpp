#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/expand.hpp"
#include "ir/test_cases/fused_cases.hpp"
#include "kernels/fused/cuda_phases.hpp"
#include "kernels/fused/cuda_source.hpp"
#include "kernels/vendor/nvrtc/compile_to_cubin.hpp"

namespace headroom::cuda {
namespace {

constexpr int kMultiprocessors = 1;  // so that few rows are many

TEST(RowWalk, RowsThatReadTheSameFollowOneAnotherUnlessACacheHoldsIt) {
  constexpr std::int64_t kRows = 400, kColumns = 1024, kBetweenUses = kRows * kColumns * 3 * 2;  // scores, mask, result
  const FusedCase one = FusedCases(DType::kBF16, DType::kBF16, kRows, kColumns).named("softmax of masked scores");
  const auto innermost_extent = [&](std::int64_t cache_bytes) {
    return densely_bound_program(one.spec, cache_bytes).walk.outer.back().extent;
  };
  EXPECT_EQ(innermost_extent(0), 2) << "both sets' rows of a row of the mask";
  EXPECT_EQ(innermost_extent(kBetweenUses - 1), 2);
  EXPECT_EQ(innermost_extent(kBetweenUses), kRows) << "as they lie";
}

class CudaSource : public testing::TestWithParam<std::int64_t> {};

TEST_P(CudaSource, CompilesInEveryShape) {
  if (const std::string reason = nvrtc::obstacle(); !reason.empty()) GTEST_SKIP() << reason;
  const std::int64_t columns = GetParam();
  const std::int64_t rows = columns < 100 ? 399 : columns == 3072 ? 400 : 21;  // many short ones, and blocks that stay
  for (const FusedCase& one :
       FusedCases(columns % 3 == 0 ? DType::kF16 : DType::kBF16, DType::kF32, rows, columns).list(true)) {
    const BoundProgram bound = densely_bound_program(one.spec);
    for (const RowShape& shape : row_shapes(bound, kMultiprocessors))
      EXPECT_NO_THROW(static_cast<void>(nvrtc::compile_to_cubin(cuda_source_of(bound, shape).text, "sm_90")))
          << one.name << ", " << shape.threads << " threads";
  }
}
INSTANTIATE_TEST_SUITE_P(Columns, CudaSource, testing::Values(7, 64, 3072, 70000));

TEST(CudaSourceShapes, CoverARowOnceWhateverItsLength) {
  for (const std::int64_t columns : {2, 7, 64, 192, 1000, 3072, 9216, 40000, 70000})
    for (const FusedCase& one : FusedCases(DType::kBF16, DType::kBF16, 21, columns).list(true)) {
      const BoundProgram bound = densely_bound_program(one.spec);
      EXPECT_EQ(bound.walk.columns.extent % widest_pack(bound), 0);
      const std::vector<RowShape> shapes = row_shapes(bound, kMultiprocessors);
      ASSERT_FALSE(shapes.empty()) << one.name;
      for (const RowShape& shape : shapes) {
        EXPECT_EQ(widest_pack(bound) % shape.width, 0);
        if (bound.program.needs_rows && !shape.is_reread) {
          EXPECT_GE(std::int64_t{shape.width} * shape.threads * shape.packs, columns) << one.name;
        }
        EXPECT_LE(shape.threads * shape.rows_of_block, 1024);
      }
    }
}

TEST(CudaSourceShapes, WaitForTheKernelsBeforeFirst) {
  for (const std::int64_t columns : {7, 64, 3072, 70000})
    for (const FusedCase& one : FusedCases(DType::kBF16, DType::kF32, 21, columns).list(true)) {
      const BoundProgram bound = densely_bound_program(one.spec);
      for (const RowShape& shape : row_shapes(bound, kMultiprocessors)) {
        const std::string text = cuda_source_of(bound, shape).text;
        const std::size_t kernel = text.find(" kernel(");
        ASSERT_NE(kernel, std::string::npos);
        EXPECT_THAT(text.substr(text.find('{', kernel)),
                    testing::StartsWith("{\nwait_for_previous();\nif (blockIdx.x >= gridDim.x) return;\n"))
            << one.name;
      }
    }
}

TEST(CudaSourceSizes, DiffersInItsRowsAlone) {
  const auto size_key = [](DType side, std::int64_t rows, std::int64_t columns, std::size_t number) {
    return size_key_of(densely_bound_program(FusedCases(DType::kBF16, side, rows, columns).list(true).at(number).spec));
  };
  for (std::size_t i = 0; i < FusedCases(DType::kBF16, DType::kBF16, 21, 64).list(true).size(); ++i) {
    const FusedCase one = FusedCases(DType::kBF16, DType::kBF16, 21, 64).list(true).at(i);
    SCOPED_TRACE(one.name);
    const bool has_rows = densely_bound_program(one.spec).program.needs_rows;
    const tune::SizeKey few = size_key(DType::kBF16, 21, 64, i), many = size_key(DType::kBF16, 42, 64, i);
    EXPECT_EQ(few.family, many.family);
    ASSERT_EQ(few.size.size(), 1U);
    EXPECT_EQ(many.size[0], 2 * few.size[0]);
    const tune::SizeKey wide = size_key(DType::kBF16, 21, 128, i);
    EXPECT_EQ(wide.family == few.family, !has_rows);
    EXPECT_EQ(wide.size[0], has_rows ? few.size[0] : 2 * few.size[0]);
  }
}

TEST(CudaSourceSizes, HasBodyAndDTypesInCommon) {
  std::set<std::string> family;
  const std::vector<FusedCase> cases = FusedCases(DType::kBF16, DType::kBF16, 21, 64).list(true);
  for (const FusedCase& one : cases) family.insert(size_key_of(densely_bound_program(one.spec)).family);
  EXPECT_EQ(family.size(), cases.size());
  for (const FusedCase& one : FusedCases(DType::kF16, DType::kF16, 21, 64).list(true))
    EXPECT_TRUE(family.insert(size_key_of(densely_bound_program(one.spec)).family).second) << one.name;
}

TEST(CudaSourceShapes, LetAThreadTakeSeveralShortRowsThatAreAllRead) {
  for (const std::int64_t columns : {64, 3072})
    for (const FusedCase& one : FusedCases(DType::kBF16, DType::kF32, 399, columns).list(true)) {
      const BoundProgram bound = densely_bound_program(one.spec);
      for (const RowShape& shape : row_shapes(bound, kMultiprocessors)) {
        if (shape.rows_of_thread == 1) continue;
        EXPECT_EQ(bound.walk.outer.back().extent % shape.rows_of_thread, 0) << one.name;
        EXPECT_LE(shape.threads, 32);
        const std::string text = cuda_source_of(bound, shape).text;
        const std::size_t read = text.find("[q][p]), a"), looked_at = text.find("= all");
        ASSERT_NE(read, std::string::npos) << one.name;
        EXPECT_LT(text.rfind("[q][p]), a"), looked_at) << one.name;
      }
      const bool has_several = std::ranges::any_of(row_shapes(bound, kMultiprocessors),
                                                   [](const RowShape& shape) { return shape.rows_of_thread > 1; });
      EXPECT_EQ(has_several, columns == 64 && bound.program.needs_rows) << one.name;
    }
}

TEST(CudaSourceShapes, LetBlocksStayThatHaveRoomForARowAhead) {
  const auto staying_of = [](const std::string& name, std::int64_t rows, std::int64_t columns) {
    const FusedCase one = FusedCases(DType::kBF16, DType::kBF16, rows, columns).named(name);
    for (const RowShape& shape : row_shapes(densely_bound_program(one.spec), kMultiprocessors))
      if (shape.staying > 0) return shape;
    return RowShape{};
  };
  const std::string softmax = "softmax of masked scores";
  const RowShape shape = staying_of(softmax, 400, 1024);
  ASSERT_GT(shape.staying, 0);
  EXPECT_EQ(shape.threads, 32);
  EXPECT_EQ(shape.staying, shape.blocks * kMultiprocessors);
  EXPECT_EQ(staying_of(softmax, 21, 1024).staying, 0) << "a row or two for each warp";
  EXPECT_EQ(staying_of(softmax, 400, 256).staying, 0) << "many short rows are in flight";
  EXPECT_EQ(staying_of(softmax, 400, 9216).staying, 0) << "a row is of many warps";
  EXPECT_EQ(staying_of("sum, rms norm", 800, 3072).threads, 64) << "a warp's two operands take too much memory";

  const FusedCase one = FusedCases(DType::kBF16, DType::kBF16, 400, 1024).named(softmax);
  const KernelSource source = cuda_source_of(densely_bound_program(one.spec), shape);
  EXPECT_EQ(source.blocks, shape.staying);
  const std::size_t next = source.text.find("fetch(row + A"), waits = source.text.find("wait_for_all_groups", next);
  EXPECT_LT(next, waits);
  EXPECT_LT(waits, source.text.find("read(static_cast", waits));
}

TEST(CudaSourceShapes, LetBlocksThatStayComputeOnceWhatManyRowsHaveInCommon) {
  const FusedCase one = FusedCases(DType::kBF16, DType::kBF16, 400, 3072).named("gated sum, norm, modulation");
  const BoundProgram bound = densely_bound_program(one.spec);
  const CommonSteps common = common_steps(bound, Phases(bound, false));
  EXPECT_EQ(common.used.size(), 3U) << "the gate, one more than the scale, and the shift";
  EXPECT_EQ(common.all.size(), 4U);
  for (const int step : common.all)
    for (const int arg : bound.program.steps[static_cast<std::size_t>(step)].args)
      EXPECT_TRUE(arg < 0 || common.all.contains(arg));
  RowShape shape{.width = 8, .threads = 64, .packs = 6, .staying = 4, .ahead = 2, .blocks = 4};
  const std::string text = cuda_source_of(bound, shape).text;
  const std::size_t once = text.find("!= stretch)"), each = text.find("fetch(row + A");
  ASSERT_LT(once, each);
  for (const int step : common.used) {
    const std::size_t made = text.find(fmt::format("c{}[p][i] = ", step));
    EXPECT_LT(once, made);
    EXPECT_LT(made, each);
    EXPECT_LT(each, text.find(fmt::format("c{}[p][i]", step), each)) << "and used in each row";
  }
}

// Three operands of 64 threads with eight packs each are 48 KiB of shared memory, and their warps exchange sums
// there too.
TEST(CudaSourceShapes, LetNoBlockStayThatHasNoRoomForSums) {
  if (const std::string reason = nvrtc::obstacle(); !reason.empty()) GTEST_SKIP() << reason;
  const FusedCase one = FusedCases(DType::kBF16, DType::kBF16, 400, 4096).named("sum of three, rms norm");
  const BoundProgram bound = densely_bound_program(one.spec);
  for (const RowShape& shape : row_shapes(bound, kMultiprocessors))
    EXPECT_NO_THROW(static_cast<void>(nvrtc::compile_to_cubin(cuda_source_of(bound, shape).text, "sm_90")))
        << shape.threads << " threads, " << shape.packs << " packs, " << shape.staying << " staying";
}

// An extreme of a 16-bit load is reduced on pairs; after another step, or in f32, on single elements.
TEST(CudaSourceShapes, FindExtremesOfSixteenBitsTwoByTwo) {
  const auto makes_pairs = [](DType stored, const std::string& name) {
    const BoundProgram bound = densely_bound_program(FusedCases(stored, DType::kF32, 21, 64).named(name).spec);
    const std::string text = cuda_source_of(bound, row_shapes(bound, kMultiprocessors)[0]).text;
    return text.find("= Max::join_pairs<") != std::string::npos;
  };
  EXPECT_TRUE(makes_pairs(DType::kBF16, "cross-entropy of a row"));
  EXPECT_TRUE(makes_pairs(DType::kF16, "cross-entropy of a row"));
  EXPECT_FALSE(makes_pairs(DType::kF32, "cross-entropy of a row"));
  EXPECT_FALSE(makes_pairs(DType::kBF16, "softmax of masked scores"));
}

TEST(CudaSourceShapes, ReadWhatTheFirstResultMayLieOverBeforeItIsWritten) {
  for (const std::int64_t columns : {7, 64, 3072, 70000})
    for (const FusedCase& one : FusedCases(DType::kBF16, DType::kF32, 5, columns).list(false)) {
      if (one.name != "sum first, an operand last") continue;
      const BoundProgram bound = densely_bound_program(one.spec);
      std::vector<std::string> reads;
      for (std::size_t k = 0; k < bound.program.loads.size(); ++k)
        if (bound.loads[k] == DType::kBF16 && bound.program.loads[k].axes == bound.program.results[0].axes)
          reads.push_back(fmt::format(", a{} + p", k));
      ASSERT_EQ(reads.size(), 3U);
      for (const RowShape& shape : row_shapes(bound, kMultiprocessors)) {
        const std::string text = cuda_source_of(bound, shape).text;
        const std::size_t written = text.find(fmt::format("y, a{} + p", bound.program.loads.size()));
        ASSERT_NE(written, std::string::npos);
        for (const std::string& read : reads) EXPECT_LT(text.rfind(read), written) << columns << ", " << shape.threads;
      }
    }
}

TEST(CudaSourceShapes, ReadPacksOfSixteenBytesWhereRowsAllowIt) {
  const auto width_of = [](DType dtype, std::int64_t columns) {
    return widest_pack(densely_bound_program(FusedCases(dtype, dtype, 5, columns).list(false).front().spec));
  };
  EXPECT_EQ(width_of(DType::kBF16, 3072), 8);
  EXPECT_EQ(width_of(DType::kF32, 3072), 4);
  EXPECT_EQ(width_of(DType::kBF16, 36), 4);
  EXPECT_EQ(width_of(DType::kBF16, 7), 1);
}

}  // namespace
}  // namespace headroom::cuda
