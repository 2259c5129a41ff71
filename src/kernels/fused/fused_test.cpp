#include <algorithm>

#include "ir/builder.hpp"
#include "ir/test_cases/fused_cases.hpp"
#include "ir/text/text.hpp"
#include "testing/highway_check.hpp"

namespace headroom {
namespace {

struct Types {
  DType x, side;
};
constexpr Types kTypes[] = {
    {DType::kF32, DType::kF32}, {DType::kBF16, DType::kBF16}, {DType::kBF16, DType::kF32}, {DType::kF16, DType::kF16}};

/// Tolerance of the tape. Scales are the maximum of a row whose mean was subtracted: with two columns the tape's
/// sums leave fewer digits of that. Activations before quantization are accurate to 2^-12, and so are their scales.
/// If a vector has one lane, a sum of 2048 numbers is off by up to six units in the last place, and so is its row.
Tolerance tape_tolerance(const FusedCase& body) {
  Tolerance tolerance = tolerance_of(body, highway_tolerance(body.spec.outputs[0].dtype));
  if (body.spec.outputs[0].dtype == DType::kF32) tolerance.max_ulps_of_peak = std::max(tolerance.max_ulps_of_peak, 8.0);
  const bool has_scales = body.is_quantized && body.spec.outputs.back().dtype == DType::kF32;
  const double units = body.name == "gelu, quantized" ? 0x1p11 : 64;
  if (has_scales) tolerance.max_ulps_of_peak = std::max(tolerance.max_ulps_of_peak, units);
  return tolerance;
}

// A pair, less than a vector, several rows to a block, whole blocks and a remainder, rows of several blocks. Each
// body uses another dtype for each of them.
TEST(Fused, RowsMatchTheOracle) {
  std::size_t turn = 0;
  for (const std::int64_t columns : {2, 7, 64, 200, 1000, 3072}) {
    SCOPED_TRACE(columns);
    const std::size_t bodies = FusedCases(DType::kBF16, DType::kBF16, 5, columns).list(true).size();
    for (std::size_t k = 0; k < bodies; ++k) {
      const Types types = kTypes[turn++ % std::size(kTypes)];
      const std::vector<FusedCase> cases = FusedCases(types.x, types.side, 5, columns).list(true);
      if (k >= cases.size()) continue;
      SCOPED_TRACE(cases[k].name);
      expect_matches_oracle("highway.fused", cases[k].spec, tape_tolerance(cases[k]));
    }
  }
}

TEST(Fused, ThreadsShareRows) {
  std::size_t turn = 0;
  for (std::size_t k = 0; k < FusedCases(DType::kBF16, DType::kBF16, 9, 2048).list(true).size(); ++k) {
    const Types types = kTypes[turn++ % std::size(kTypes)];
    const std::vector<FusedCase> cases = FusedCases(types.x, types.side, 9, 2048).list(true);
    if (k >= cases.size()) continue;
    SCOPED_TRACE(cases[k].name);
    expect_matches_oracle("highway.fused", cases[k].spec, tape_tolerance(cases[k]));
  }
}

TEST(Fused, BytesAreThoseOfTheOracle) {
  for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16})
    for (const DType to : {DType::kI8, DType::kF8E4M3})
      for (const std::int64_t columns : {5, 64, 1500}) {
        Graph body("body");
        Builder b(body);
        const TensorType x{stored, {3, columns}};
        const auto [q, scale] = b.quantize(b.cast(body.add_input("x", x), DType::kF32), to);
        body.add_output("q", q);
        body.add_output("scale", scale);
        expect_matches_oracle("highway.fused", make_spec(Op::kFused, {x}, {{"body", canonical_text(body)}}));
      }
}

TEST(Fused, ReadsAndWritesEveryDtype) {
  for (const DType from :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8, DType::kU8, DType::kBool})
    for (const DType to : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8, DType::kU8}) {
      SCOPED_TRACE(name_of(to));
      Graph body("body");
      Builder b(body);
      const TensorType x{from, {3, 71}};
      body.add_output("y", b.cast(b.add_scalar(b.cast(body.add_input("x", x), DType::kF32), 0), to));
      expect_matches_oracle("highway.fused", make_spec(Op::kFused, {x}, {{"body", canonical_text(body)}}));
    }
}

TEST(Fused, ThreadsSharePiecesOfOneRow) {
  Graph body("body");
  Builder b(body);
  const TensorType x{DType::kF32, {3, 40009}};
  body.add_output("y", b.cast(b.silu(b.add(body.add_input("a", x), body.add_input("b", x))), DType::kBF16));
  expect_matches_oracle("highway.fused", make_spec(Op::kFused, {x, x}, {{"body", canonical_text(body)}}));
}

TEST(Fused, ImagesAreWalkedAsTheyLie) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    Graph body("body");
    Builder b(body);
    const TensorType image{DType::kBF16, {2, 16, 9, 5}, layout}, vector{DType::kBF16, {1, 16, 1, 1}};
    const ValueId x = b.cast(body.add_input("x", image), DType::kF32),
                  y = b.cast(body.add_input("y", image), DType::kF32);
    body.add_output("z",
                    b.cast(b.silu(b.add(b.mul(x, b.cast(body.add_input("v", vector), DType::kF32)), y)), DType::kBF16));
    expect_matches_oracle("highway.fused",
                          make_spec(Op::kFused, {image, image, vector}, {{"body", canonical_text(body)}}));
  }
}

TEST(Fused, PixelsOfChannelsLastImagesAreRepeated) {
  for (const DType stored : {DType::kF32, DType::kBF16})
    for (const Layout layout : {Layout::kChannelsLast, Layout::kRowMajor}) {
      const TensorType small{stored, {2, 40, 3, 5}, layout}, large{stored, {2, 40, 6, 10}, layout};
      Graph body("body");
      Builder b(body);
      const ValueId x = b.cast(body.add_input("x", small), DType::kF32);
      const ValueId skip = b.cast(body.add_input("skip", large), DType::kF32);
      const ValueId stretched = b.resize2d(x, {6, 10});
      body.add_output("y", b.cast(b.add(stretched, skip), stored));
      const OpSpec spec = make_spec(Op::kFused, {small, large}, {{"body", canonical_text(body)}});
      if (layout == Layout::kChannelsLast)
        expect_matches_oracle("highway.fused", spec);
      else
        EXPECT_TRUE(kernel_named("highway.fused").supports(spec, Target{}).has_value());
    }
}

TEST(Fused, RefusesABodyWithoutRows) {
  Graph body("body");
  Builder b(body);
  const TensorType x{DType::kF32, {4, 6}};
  body.add_output("y", b.sum(body.add_input("x", x), {0}));
  const Support support =
      kernel_named("highway.fused").supports(make_spec(Op::kFused, {x}, {{"body", canonical_text(body)}}), Target{});
  ASSERT_TRUE(support.has_value());
  EXPECT_THAT(support->reason, testing::HasSubstr("other axes"));
}

}  // namespace
}  // namespace headroom
