#include "lower/row_program.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/builder.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing_tools::kBF16;
using testing_tools::kF32;

struct Body {
  Graph graph{"body"};
  Builder builder{graph};

  Builder* operator->() { return &builder; }
  ValueId input(const Shape& shape, DType dtype = kF32) {
    return graph.add_input(fmt::format("x{}", graph.values_of(ValueKind::kInput).size()), {dtype, shape});
  }
  void output(ValueId value) { graph.add_output(fmt::format("y{}", graph.outputs().size()), value); }

  [[nodiscard]] std::string reason() const {
    const auto program = row_program_of(graph);
    return std::holds_alternative<std::string>(program) ? std::get<std::string>(program) : "";
  }
};

std::string name_of(const RowProgram::Step& step) {
  using Do = RowProgram::Do;
  switch (step.what) {
    case Do::kLoad:
      return fmt::format("load {}", step.access);
    case Do::kConstant:
      return fmt::format("{}", step.numbers[0]);
    case Do::kFormula:
      return std::string(name_of(step.op));
    case Do::kSelect:
      return "select";
    case Do::kRound:
      return fmt::format("round to {}", step.dtype);
    case Do::kRotate:
      return "rotate";
    case Do::kSum:
      return "sum";
    case Do::kMax:
      return "max of row";
    case Do::kMin:
      return "min of row";
    case Do::kPeak:
      return "peak";
    case Do::kScale:
      return fmt::format("scale by {}", step.numbers[0]);
    case Do::kInverse:
      return fmt::format("inverse by {}", step.numbers[0]);
    case Do::kQuantize:
      return "quantize";
  }
  return "?";
}

/// Steps as "mul 0 1"; a colon after the name marks steps with one value per row.
std::vector<std::string> steps_of(const Body& body) {
  const auto program = row_program_of(body.graph);
  if (const auto* reason = std::get_if<std::string>(&program)) return {*reason};
  std::vector<std::string> lines;
  for (const RowProgram::Step& step : std::get<RowProgram>(program).steps) {
    std::string line = name_of(step) + (step.is_wide ? "" : ":");
    for (const int arg : step.args)
      if (arg >= 0) line += fmt::format(" {}", arg);
    const bool is_scalar = step.what == RowProgram::Do::kFormula && schema_of(step.op).attributes.size() == 1;
    lines.push_back(is_scalar ? fmt::format("{} by {:g}", line, step.numbers[0]) : line);
  }
  return lines;
}

RowProgram program_of(const Body& body) { return std::get<RowProgram>(row_program_of(body.graph)); }

TEST(RowProgram, ReadsThroughCastsAndStoresThroughThem) {
  Body body;
  const ValueId x = body->cast(body.input({2, 3}, kBF16), kF32), y = body.input({3});
  body.output(body->cast(body->mul(body->silu(x), y), kBF16));
  EXPECT_THAT(steps_of(body), ElementsAre("load 0", "silu 0", "load 1", "mul 1 2"));
  const RowProgram program = program_of(body);
  EXPECT_EQ(program.space, (Shape{2, 3}));
  EXPECT_FALSE(program.needs_rows);
  EXPECT_EQ(program.loads[0], (RowAccess{.operand = 0, .axes = {0, 1}, .repeats = {}}));
  EXPECT_EQ(program.loads[1], (RowAccess{.operand = 1, .axes = {-1, 0}, .repeats = {}}));
  ASSERT_EQ(program.results.size(), 1U);
  EXPECT_EQ(program.results[0].step, 3);
  EXPECT_EQ(program.results[0].axes, (std::vector<int>{0, 1}));
}

TEST(RowProgram, RoundsWhereTheBodyCasts) {
  Body body;
  const ValueId rounded = body->cast(body->relu(body.input({4})), kBF16);
  body.output(body->exp(body->cast(rounded, kF32)));
  body.output(rounded);
  EXPECT_THAT(steps_of(body), ElementsAre("load 0", "relu 0", "round to bf16 1", "exp 2"));
  EXPECT_EQ(program_of(body).results[1].step, 1);
}

TEST(RowProgram, TakesNormsApart) {
  Body body;
  const ValueId x = body.input({2, 4}), weight = body.input({4}), bias = body.input({4});
  body.output(body->layer_norm(x, 0.5, {.weight = weight, .bias = bias}));
  EXPECT_THAT(steps_of(body), ElementsAre("load 0", "sum: 0", "mul_scalar: 1 by 0.25", "sub 0 2", "mul 3 3", "sum: 4",
                                          "mul_scalar: 5 by 0.25", "add_scalar: 6 by 0.5", "rsqrt: 7", "mul 3 8",
                                          "load 1", "mul 9 10", "load 2", "add 11 12"));
  EXPECT_TRUE(program_of(body).needs_rows);
  Body root;
  const ValueId z = root.input({2, 4}), factor = root.input({4});
  root.output(root->rms_norm(z, factor, 0.5));
  EXPECT_THAT(steps_of(root), ElementsAre("load 0", "mul 0 0", "sum: 1", "mul_scalar: 2 by 0.25",
                                          "add_scalar: 3 by 0.5", "rsqrt: 4", "mul 0 5", "load 1", "mul 6 7"));
}

TEST(RowProgram, TakesSoftmaxApart) {
  Body body;
  const ValueId x = body.input({2, 4});
  body.output(body->softmax(x));
  EXPECT_THAT(steps_of(body),
              ElementsAre("load 0", "max of row: 0", "sub 0 1", "exp 2", "sum: 3", "1:", "div: 5 4", "mul 3 6"));
}

TEST(RowProgram, TakesQuantizersApart) {
  Body body;
  const ValueId x = body->relu(body.input({2, 4}));
  const auto [q, scale] = body->quantize(x, DType::kF8E4M3);
  body.output(q);
  body.output(scale);
  EXPECT_THAT(steps_of(body),
              ElementsAre("load 0", "relu 0", "peak: 1", "inverse by 448: 2", "quantize 1 3", "scale by 448: 2"));
  const RowProgram program = program_of(body);
  EXPECT_EQ(program.results[0].axes, (std::vector<int>{0, 1}));
  EXPECT_EQ(program.results[1].axes, (std::vector<int>{0, -1}));
}

TEST(RowProgram, RotatesByTablesOfHalfTheColumns) {
  Body body;
  const ValueId x = body.input({2, 3, 8}), cosine = body.input({3, 4}), sine = body.input({3, 4});
  body.output(body->rope(x, cosine, sine));
  EXPECT_THAT(steps_of(body), ElementsAre("load 0", "load 1", "load 2", "rotate 0 1 2"));
  const RowProgram program = program_of(body);
  EXPECT_TRUE(program.needs_rows);
  EXPECT_EQ(program.loads[1], (RowAccess{.operand = 1, .axes = {-1, 0, 1}, .repeats = {1, 1, 2}}));
}

TEST(RowProgram, ReducesAndPutsTheAxisBack) {
  Body body;
  const ValueId x = body.input({2, 3, 4});
  const ValueId largest = body->amax(x, {2});
  body.output(body->sub(x, body->reshape(largest, {2, 3, 1})));
  body.output(body->log(body->sum(body->exp(x), {2})));
  EXPECT_THAT(steps_of(body), ElementsAre("load 0", "max of row: 0", "sub 0 1", "exp 0", "sum: 3", "log: 4"));
  EXPECT_EQ(program_of(body).results[1].axes, (std::vector<int>{0, 1, -1}));
}

TEST(RowProgram, ReadsANumberOfEachRow) {
  Body body;
  const ValueId x = body.input({2, 3, 4}), scale = body.input({2, 3}), all = body.input({});
  body.output(body->mul(body->mul(x, body->reshape(scale, {2, 3, 1})), all));
  EXPECT_THAT(steps_of(body), ElementsAre("load 0:", "load 1", "mul 1 0", "load 2:", "mul 2 3"));
  EXPECT_EQ(program_of(body).loads[0].axes, (std::vector<int>{0, 1, -1}));
  EXPECT_EQ(program_of(body).loads[2].axes, (std::vector<int>{-1, -1, -1}));
}

TEST(RowProgram, KeepsTheOrderOfAttributes) {
  Body body;
  body.output(body->clamp(body.input({4}), -1, 2));
  const RowProgram program = program_of(body);
  ASSERT_EQ(program.steps.size(), 2U);
  EXPECT_EQ(program.steps[1].numbers, (std::array<double, 2>{-1, 2}));
}

TEST(RowProgram, LeavesOutWhatNothingReads) {
  Body body;
  const ValueId x = body.input({2, 4}), y = body.input({2, 4}), z = body.input({2, 4});
  static_cast<void>(body->mul(x, y));
  body.output(body->relu(z));
  EXPECT_THAT(steps_of(body), ElementsAre("load 0", "relu 0"));
  EXPECT_EQ(program_of(body).loads[0].operand, 2);
}

TEST(RowProgram, ExpandsWhatIsFused) {
  Body body;
  const ValueId residual = body.input({1, 2, 4}), gate = body.input({1, 1, 4}), x = body.input({1, 2, 4});
  body.output(body->emit(Op::kGateResidual, {residual, gate, x})[0]);
  EXPECT_THAT(steps_of(body), ElementsAre("load 0", "load 1", "mul 0 1", "load 2", "add 3 2"));
}

TEST(RowProgram, StretchesItsInputs) {
  Body body;
  const ValueId x = body.input({2, 3, 4, 1}, kBF16), skip = body.input({2, 3, 8, 6});
  body.output(body->add(body->resize2d(body->cast(x, kF32), {8, 6}), skip));
  EXPECT_THAT(steps_of(body), ElementsAre("load 0:", "load 1", "add 0 1"));
  const RowProgram program = program_of(body);
  EXPECT_EQ(program.space, (Shape{2, 3, 8, 6}));
  EXPECT_FALSE(program.needs_rows);
  EXPECT_EQ(program.loads[0], (RowAccess{.operand = 0, .axes = {0, 1, 2, -1}, .repeats = {1, 1, 2, 1}}));
  Body alone;
  alone.output(alone->resize2d(alone.input({1, 2, 3, 3}), {6, 9}));
  EXPECT_THAT(steps_of(alone), ElementsAre("load 0"));
  EXPECT_EQ(program_of(alone).loads[0], (RowAccess{.operand = 0, .axes = {-1, 1, 2, 3}, .repeats = {1, 1, 2, 3}}));
}

TEST(RowProgram, GathersAnElementForEachRow) {
  Body body;
  const ValueId x = body.input({2, 4}), table = body.input({8}, kBF16), places = body.input({2, 1}, DType::kI64);
  const ValueId label = body->cast(body->gather(table, places), kF32);
  body.output(body->sub(body->reshape(body->amax(x, {1}), {2, 1}), label));
  EXPECT_THAT(steps_of(body), ElementsAre("load 1:", "load 2", "max of row: 1", "sub: 2 0"));
  const RowProgram program = program_of(body);
  EXPECT_EQ(program.loads[0], (RowAccess{.operand = 2, .axes = {0, -1}, .repeats = {}}));
  EXPECT_EQ(program.loads[1], (RowAccess{.operand = 1, .axes = {-1, -1}, .repeats = {}, .index = 0, .places = 8}));
}

// The reasons why a body has no row program.

TEST(RowProgram, RefusesToGatherAnythingElse) {
  Body rows;
  rows.output(rows->softmax(rows->gather(rows.input({8, 4}), rows.input({2}, DType::kI32))));
  EXPECT_EQ(rows.reason(), "gather takes more than one element for each row");
  Body computed;
  const ValueId x = computed.input({2, 4}), table = computed->relu(computed.input({8}));
  computed.output(computed->mul(computed->softmax(x), computed->gather(table, computed.input({2, 1}, DType::kI32))));
  EXPECT_EQ(computed.reason(), "gather takes what the body computes, or where it does");
  Body flat;
  flat.output(flat->mul(flat.input({2, 4}), flat->gather(flat.input({8}), flat.input({2, 1}, DType::kI32))));
  EXPECT_EQ(flat.reason(), "gather is used without an op over rows");
}

TEST(RowProgram, RefusesToStretchAnythingElse) {
  Body bilinear;
  bilinear.output(bilinear->resize2d(bilinear.input({1, 2, 3, 3}), {6, 6}, ResizeMode::kBilinear));
  EXPECT_EQ(bilinear.reason(), "resize2d is not of nearest neighbours by whole factors");
  Body partly;
  partly.output(partly->resize2d(partly.input({1, 2, 3, 3}), {6, 7}));
  EXPECT_EQ(partly.reason(), "resize2d is not of nearest neighbours by whole factors");
  Body computed;
  computed.output(computed->resize2d(computed->silu(computed.input({1, 2, 3, 3})), {6, 6}));
  EXPECT_EQ(computed.reason(), "resize2d stretches what the body computes");
  Body crossed;
  const ValueId x = crossed.input({1, 1, 3, 1}), y = crossed.input({1, 1, 2, 1});
  crossed.output(crossed->add(crossed->resize2d(x, {6, 1}), crossed->resize2d(y, {6, 1})));
  EXPECT_EQ(crossed.reason(),
            "operands are stretched along one axis by factors of which none is a multiple of the other");
}

TEST(RowProgram, RefusesWhatGoesFromRowToRow) {
  Body turned;
  turned.output(turned->transpose(turned.input({2, 3}), {1, 0}));
  EXPECT_EQ(turned.reason(), "transpose works on more than rows");
  Body running;
  running.output(running->emit(Op::kCumsum, {running.input({2, 3})})[0]);
  EXPECT_EQ(running.reason(), "cumsum works on more than rows");
  Body shaped;
  shaped.output(shaped->relu(shaped->reshape(shaped->relu(shaped.input({2, 6})), {3, 4})));
  EXPECT_EQ(shaped.reason(), "reshape moves elements to other rows");
}

TEST(RowProgram, RefusesOtherAxes) {
  Body columns;
  columns.output(columns->sum(columns.input({2, 3}), {0}));
  EXPECT_EQ(columns.reason(), "sum goes over other axes than the innermost");
  Body twice;
  twice.output(twice->mean(twice->amax(twice.input({2, 3, 4}), {2}), {1}));
  EXPECT_EQ(twice.reason(), "mean goes over other axes than the innermost");
  Body norm;
  norm.output(norm->softmax(norm->sum(norm.input({2, 3, 4}), {2})));
  EXPECT_EQ(norm.reason(), "softmax goes over another axis than the innermost");
  Body shorter;
  const ValueId wide = shorter.input({2, 4}), narrow = shorter.input({2, 1});
  shorter.output(shorter->add(wide, shorter->softmax(narrow)));
  EXPECT_EQ(shorter.reason(), "softmax goes over other rows");
}

TEST(RowProgram, RefusesToComputeInAnythingElse) {
  Body narrow;
  narrow.output(narrow->relu(narrow.input({4}, kBF16)));
  EXPECT_EQ(narrow.reason(), "relu computes in bf16");
  Body small;
  const ValueId bytes = small->cast(small->relu(small.input({4})), DType::kU8);
  small.output(small->cast(bytes, kF32));
  EXPECT_EQ(small.reason(), "cast computes in u8");
  Body wide;
  wide.output(wide->cast(wide.input({4}, DType::kI64), kF32));
  EXPECT_EQ(wide.reason(), "an operand is i64");
  Body made;
  made.output(made->cast(made->relu(made.input({4})), DType::kI32));
  EXPECT_EQ(made.reason(), "cast makes i32");
  Body tables;
  const ValueId x = tables.input({2, 2}), angle = tables.input({2, 1});
  tables.output(tables->rope(x, tables->cos(angle), tables->sin(angle)));
  EXPECT_EQ(tables.reason(), "rope computes its tables");
  Body numbers;
  numbers.output(numbers->add(numbers.input({2}), numbers->constant({1, 2}, {2})));
  EXPECT_EQ(numbers.reason(), "constant holds more than one number");
  Body integer;
  integer.output(integer->add(integer.input({2}), integer->cast(integer->constant({1}, {}, DType::kI32), kF32)));
  EXPECT_EQ(integer.reason(), "constant is no f32");
}

TEST(RowProgram, RefusesResultsThatDoNotFillTheSpace) {
  Body smaller;
  const ValueId x = smaller.input({2, 4}), row = smaller->relu(smaller.input({4}));
  smaller.output(smaller->add(x, row));
  smaller.output(row);
  EXPECT_EQ(smaller.reason(), "a result is smaller than the others");
  Body passed;
  const ValueId y = passed.input({2, 4});
  passed.output(passed->relu(y));
  passed.output(y);
  EXPECT_EQ(passed.reason(), "a result is an operand");
  Body mixed;
  const ValueId z = mixed.input({4, 4});
  mixed.output(mixed->add(mixed->relu(mixed.input({4})), mixed->sum(z, {1})));
  EXPECT_EQ(mixed.reason(), "add mixes rows with their elements");
}

TEST(RowProgram, RefusesRowsThatLieApartInAnImage) {
  Body body;
  const ValueId x = body.input({1, 2, 3, 4}), mask = body.input({1, 2, 1, 4});
  body.graph.set_layout(mask, Layout::kChannelsLast);
  body.output(body->softmax(body->add(x, mask)));
  EXPECT_EQ(body.reason(), "an image lies in another order than its rows");
}

}  // namespace
}  // namespace headroom
