#include <gtest/gtest.h>

#include <set>

#include "kernels/vendor/cublaslt/product.hpp"

namespace headroom::cublaslt {
namespace {

ProductSpec of_rows(std::int64_t m) {
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

TEST(ProductKin, DiffersInRowsAlone) {
  const cuda::Work one = trial_of(of_rows(4096)), other = trial_of(of_rows(2304));
  EXPECT_NE(one.text, other.text);
  EXPECT_EQ(one.kinship.kin, other.kinship.kin);
  EXPECT_EQ(one.kinship.size, std::vector<std::int64_t>{4096});
  EXPECT_EQ(other.kinship.size, std::vector<std::int64_t>{2304});
}

TEST(ProductKin, OfSeveralProductsIsOfAnyNumberOfThem) {
  const auto of_batch = [](std::int64_t batch, std::int64_t m) {
    ProductSpec spec = of_rows(m);
    spec.batch = batch, spec.a_batch = m * spec.k, spec.b_batch = spec.n * spec.k, spec.c_batch = m * spec.n;
    return trial_of(spec).kinship;
  };
  EXPECT_EQ(of_batch(2, 64).kin, of_batch(8, 48).kin);
  EXPECT_EQ(of_batch(8, 48).size, (std::vector<std::int64_t>{8, 48}));
  EXPECT_NE(of_batch(2, 64).kin, trial_of(of_rows(64)).kinship.kin);
}

TEST(ProductKin, HasAllElseInCommon) {
  std::set<std::string> kin = {trial_of(of_rows(64)).kinship.kin};
  const auto expect_other = [&](auto change) {
    ProductSpec spec = of_rows(64);
    change(spec);
    EXPECT_TRUE(kin.insert(trial_of(spec).kinship.kin).second) << to_text(spec);
  };
  expect_other([](ProductSpec& spec) { spec.n = 1280; });
  expect_other([](ProductSpec& spec) { spec.k = 1280; });
  expect_other([](ProductSpec& spec) { spec.dtype = DType::kBF16; });
  expect_other([](ProductSpec& spec) { spec.c_dtype = DType::kF32; });
  expect_other([](ProductSpec& spec) { spec.has_bias = false; });
  expect_other([](ProductSpec& spec) { spec.has_residual = true; });
  expect_other([](ProductSpec& spec) { spec.epilogue = Epilogue::kGelu; });
  expect_other([](ProductSpec& spec) { spec.transpose_b = false; });
  expect_other([](ProductSpec& spec) { spec.a_row = 640; });
}

}  // namespace
}  // namespace headroom::cublaslt
