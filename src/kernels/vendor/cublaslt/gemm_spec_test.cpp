#include <gtest/gtest.h>

#include <set>

#include "kernels/vendor/cublaslt/gemm.hpp"

namespace headroom::cublaslt {
namespace {

GemmSpec of_rows(std::int64_t m) {
  return {.dtype = DType::kF16,
          .c_dtype = DType::kF16,
          .m = m,
          .n = 640,
          .k = 320,
          .a_row = 320,
          .b_row = 320,
          .c_row = 640,
          .has_bias = true};
}

TEST(GemmSizes, DiffersInRowsAlone) {
  const tune::Work one = trial_of(of_rows(4096)), other = trial_of(of_rows(2304));
  EXPECT_NE(one.text, other.text);
  EXPECT_EQ(one.size_key.family, other.size_key.family);
  EXPECT_EQ(one.size_key.size, std::vector<std::int64_t>{4096});
  EXPECT_EQ(other.size_key.size, std::vector<std::int64_t>{2304});
}

TEST(GemmSizes, OfSeveralGemmsIsOfAnyNumberOfThem) {
  const auto of_batch = [](std::int64_t batch, std::int64_t m) {
    GemmSpec spec = of_rows(m);
    spec.batch = batch, spec.a_batch = m * spec.k, spec.b_batch = spec.n * spec.k, spec.c_batch = m * spec.n;
    return trial_of(spec).size_key;
  };
  EXPECT_EQ(of_batch(2, 64).family, of_batch(8, 48).family);
  EXPECT_EQ(of_batch(8, 48).size, (std::vector<std::int64_t>{8, 48}));
  EXPECT_NE(of_batch(2, 64).family, trial_of(of_rows(64)).size_key.family);
}

TEST(GemmSizes, HasAllElseInCommon) {
  std::set<std::string> family = {trial_of(of_rows(64)).size_key.family};
  const auto expect_other = [&](auto change) {
    GemmSpec spec = of_rows(64);
    change(spec);
    EXPECT_TRUE(family.insert(trial_of(spec).size_key.family).second) << to_text(spec);
  };
  expect_other([](GemmSpec& spec) { spec.n = 1280; });
  expect_other([](GemmSpec& spec) { spec.k = 1280; });
  expect_other([](GemmSpec& spec) { spec.dtype = DType::kBF16; });
  expect_other([](GemmSpec& spec) { spec.c_dtype = DType::kF32; });
  expect_other([](GemmSpec& spec) { spec.has_bias = false; });
  expect_other([](GemmSpec& spec) { spec.has_residual = true; });
  expect_other([](GemmSpec& spec) { spec.epilogue = Epilogue::kGelu; });
  expect_other([](GemmSpec& spec) { spec.transpose_b = false; });
  expect_other([](GemmSpec& spec) { spec.a_row = 640; });
  expect_other([](GemmSpec& spec) { spec.dtype = DType::kF8E4M3; });
  expect_other([](GemmSpec& spec) { spec.dtype = DType::kF8E4M3, spec.b_is_f8e5m2 = true; });
}

}  // namespace
}  // namespace headroom::cublaslt
