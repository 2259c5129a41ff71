#include "ir/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ir/builder.hpp"
#include "ir/test_util.hpp"
#include "ir/text/text.hpp"

// One valid graph, and one test for each rule that a rewrite of it can break.

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_tools::kF32;

class VerifyTest : public testing::Test {
 protected:
  // before = relu(x); loop outer { early = relu(s); loop inner { deep = add(early, s) }; late = relu(early) }; after =
  // relu(before)
  VerifyTest() {
    x_ = graph_.add_input("x", {kF32, Shape{2}});
    s_ = graph_.add_state("s", {kF32, Shape{2}});
    b_.set_path("net.before");
    before_ = b_.relu(x_);
    {
      const auto outer = b_.loop(2, "i");
      outer_ = b_.region();
      counter_ = outer.counter();
      b_.set_path("net.early");
      early_ = b_.relu(s_);
      {
        const auto inner = b_.loop(3, "j");
        inner_ = b_.region();
        b_.set_path("net.deep");
        deep_ = b_.add(early_, s_);
      }
      b_.set_path("net.late");
      late_ = b_.relu(early_);
    }
    b_.set_path("net.after");
    after_ = b_.relu(before_);
    graph_.set_next(s_, deep_, inner_);
    graph_.add_output("y", after_);
  }

  /// Changes the schedule with `edit`.
  template <typename Edit>
  void rewrite(Edit edit) {
    std::vector<Node> nodes = graph_.take_nodes();
    edit(nodes);
    graph_.set_nodes(std::move(nodes));
  }

  template <typename... Parts>
  void expect_broken(const Parts&... parts) const {
    try {
      verify(graph_);
      FAIL() << "verify() accepted a broken graph";
    } catch (const std::logic_error& error) {
      EXPECT_THAT(std::string(error.what()), AllOf(HasSubstr(parts)...));
    }
  }

  enum Index : std::size_t { kBefore, kEarly, kDeep, kLate, kAfter };

  Graph graph_{"toy"};
  Builder b_{graph_};
  ValueId x_, s_, counter_, before_, early_, deep_, late_, after_;
  RegionId outer_ = 0, inner_ = 0;
};

TEST_F(VerifyTest, AcceptsASoundGraph) { EXPECT_NO_THROW(verify(graph_)); }

TEST_F(VerifyTest, AcceptsValuesThatNoNodeMakesIfNothingReadsThem) {
  (void)graph_.add_result({kF32, Shape{3}});
  EXPECT_NO_THROW(verify(graph_));
}

TEST_F(VerifyTest, UseBeforeDefinition) {
  rewrite([](auto& nodes) { std::swap(nodes[kEarly], nodes[kLate]); });
  expect_broken("graph toy", "relu at net.late", "before it is defined");
}

TEST_F(VerifyTest, UseOfAValueNoNodeMakes) {
  rewrite([](auto& nodes) { nodes.erase(nodes.begin() + kBefore); });
  expect_broken("relu at net.after", "before it is defined");
}

TEST_F(VerifyTest, UseOfAValueThatDoesNotExist) {
  rewrite([](auto& nodes) { nodes[kAfter].inputs[0] = ValueId{999}; });
  expect_broken("net.after", "%999", "does not exist");
  rewrite([](auto& nodes) { nodes[kAfter].inputs[0] = kNoValue; });
  expect_broken("net.after", "does not exist");
}

TEST_F(VerifyTest, SecondDefinition) {
  rewrite([](auto& nodes) { nodes[kAfter].results = nodes[kBefore].results; });
  expect_broken("net.after", "a second time");
}

TEST_F(VerifyTest, ResultThatIsNoResultValue) {
  rewrite([&](auto& nodes) { nodes[kAfter].results = {x_}; });
  expect_broken("net.after", "%x", "not a result value");
  rewrite([&](auto& nodes) { nodes[kAfter].results = {ValueId{999}}; });
  expect_broken("net.after", "not a result value");
}

TEST_F(VerifyTest, UseOutsideTheLoopThatMakesTheValue) {
  rewrite([&](auto& nodes) { nodes[kAfter].inputs = {early_}; });
  expect_broken("net.after", "only inside region 1");
}

TEST_F(VerifyTest, UseInAnOuterLoopOfWhatANestedOneMakes) {
  rewrite([&](auto& nodes) { nodes[kLate].inputs = {deep_}; });
  expect_broken("net.late", "only inside region 2");
}

TEST_F(VerifyTest, CounterOutsideItsLoop) {
  graph_.add_output("step", counter_);
  expect_broken("the output step", "%i", "only inside region 1");
}

TEST_F(VerifyTest, ResultTypeThatInferenceDoesNotGive) {
  graph_.set_dtype(after_, DType::kBF16);
  expect_broken("net.after", "makes f32[2]", "declared bf16[2]");
}

TEST_F(VerifyTest, OperandsThatDoNotFit) {
  graph_.set_dtype(s_, DType::kBF16);
  graph_.set_dtype(early_, kF32);
  expect_broken("relu at net.early", "makes bf16[2]");
  graph_.set_dtype(early_, DType::kBF16);
  graph_.set_dtype(s_, DType::kF16);
  expect_broken("net.early");
}

TEST_F(VerifyTest, OperandsOfDifferentDTypes) {
  const ValueId other = graph_.add_input("other", {DType::kBF16, Shape{2}});
  rewrite([&](auto& nodes) { nodes[kDeep].inputs[1] = other; });
  expect_broken("add at net.deep", "one dtype");
}

TEST_F(VerifyTest, TooFewOperands) {
  rewrite([](auto& nodes) { nodes[kDeep].inputs.pop_back(); });
  expect_broken("net.deep", "operands");
}

TEST_F(VerifyTest, TooManyResults) {
  const ValueId extra = graph_.add_result({kF32, Shape{2}});
  rewrite([&](auto& nodes) { nodes[kAfter].results.push_back(extra); });
  expect_broken("net.after", "must have 1 results, not 2");
}

TEST_F(VerifyTest, AttributesOfAnotherOp) {
  rewrite([](auto& nodes) { nodes[kAfter].attributes = Attributes(Op::kMulScalar, {{"value", 1.0}}); });
  expect_broken("relu at net.after", "attributes");
  rewrite([](auto& nodes) {
    nodes[kAfter].op = Op::kLayerNorm;
    nodes[kAfter].attributes = Attributes();
  });
  expect_broken("layer_norm at net.after", "attributes");
}

TEST_F(VerifyTest, RegionThatDoesNotExist) {
  rewrite([](auto& nodes) { nodes[kAfter].region = 3; });
  expect_broken("net.after", "region 3");
  rewrite([](auto& nodes) { nodes[kAfter].region = -1; });
  expect_broken("net.after", "region -1");
}

TEST_F(VerifyTest, LoopInTwoPieces) {
  rewrite([](auto& nodes) { std::swap(nodes[kLate], nodes[kAfter]); });
  expect_broken("net.late", "continues region 1");
}

TEST_F(VerifyTest, NestedLoopOutsideItsParent) {
  rewrite([](auto& nodes) { std::rotate(nodes.begin() + kDeep, nodes.begin() + kDeep + 1, nodes.end()); });
  expect_broken("net.deep", "continues region 1");
}

TEST_F(VerifyTest, StateUpdateOfAnotherType) {
  const ValueId wide = graph_.add_input("wide", {DType::kF64, Shape{2}});
  graph_.set_next(s_, wide, inner_);
  expect_broken("the update of %s", "must be f32[2]", "not f64[2]");
  const ValueId longer = graph_.add_input("longer", {kF32, Shape{3}});
  graph_.set_next(s_, longer, inner_);
  expect_broken("the update of %s", "not f32[3]");
}

TEST_F(VerifyTest, StateUpdateWithAValueOfANestedLoop) {
  graph_.set_next(s_, deep_, outer_);
  expect_broken("the update of %s", "only inside region 2");
}

TEST_F(VerifyTest, StateUpdateWithAValueMadeAfterItsLoop) {
  graph_.set_next(s_, before_, inner_);
  EXPECT_NO_THROW(verify(graph_)) << "made before the loop is fine";
  graph_.set_next(s_, late_, inner_);
  expect_broken("the update of %s", "before it is defined");
  graph_.set_next(s_, after_, outer_);
  expect_broken("the update of %s", "before it is defined");
}

TEST_F(VerifyTest, StateUpdateWithAValueNothingMakes) {
  rewrite([](auto& nodes) { nodes.erase(nodes.begin() + kDeep); });
  expect_broken("the update of %s", "before it is defined");
}

TEST_F(VerifyTest, ReadOfAStateAfterTheRegionThatUpdatesIt) {
  rewrite([&](auto& nodes) { nodes[kAfter].inputs[0] = s_; });
  expect_broken("net.after", "%s", "after the region that updates it");
  rewrite([&](auto& nodes) { nodes[kAfter].inputs[0] = b_.read(s_); });
  EXPECT_NO_THROW(verify(graph_)) << "the region's result is what it should read";
  graph_.add_output("last", s_);
  EXPECT_NO_THROW(verify(graph_)) << "an output names what the state ends up as";
}

TEST_F(VerifyTest, RegionResultOfAnotherTypeOrFromElsewhere) {
  const ValueId result = graph_.add_region_result(outer_, early_);
  EXPECT_NO_THROW(verify(graph_));
  graph_.set_dtype(result, DType::kBF16);
  expect_broken("region 1", "must be bf16[2], not f32[2]");
  graph_.set_dtype(result, kF32);
  static_cast<void>(graph_.add_region_result(outer_, deep_));
  expect_broken("region 1", "only inside region 2");
}

TEST_F(VerifyTest, RegionResultReadBeforeItsRegionHasRun) {
  const ValueId result = graph_.add_region_result(outer_, early_);
  rewrite([&](auto& nodes) { nodes[kLate].inputs[0] = result; });
  expect_broken("net.late", "before it is defined");
}

TEST_F(VerifyTest, PredicateThatIsNoBoolScalar) {
  b_.run_if(x_, [&] { return std::vector<ValueId>{x_}; }, {x_});
  expect_broken("the predicate %x", "bool scalar");
}

TEST_F(VerifyTest, ElseThatDoesNotFollowItsThen) {
  const ValueId hit = graph_.add_input("hit", {DType::kBool, Shape{}});
  const auto relu = [&] { return std::vector<ValueId>{b_.relu(x_)}; };
  b_.select(hit, relu, relu);
  EXPECT_NO_THROW(verify(graph_));
  rewrite([](auto& nodes) { std::swap(nodes.back(), nodes[nodes.size() - 2]); });
  expect_broken("must directly follow its then");
}

TEST_F(VerifyTest, SecondUpdateOfAStateOutsideTheOtherBranch) {
  const ValueId hit = graph_.add_input("hit", {DType::kBool, Shape{}});
  const ValueId t = graph_.add_state("t", {kF32, Shape{2}});
  const auto update = [&](ValueId next) {
    return [this, t, next] {
      b_.set_next(t, next);
      return std::vector<ValueId>{};
    };
  };
  b_.select(hit, update(x_), update(before_));
  EXPECT_NO_THROW(verify(graph_)) << "one in each branch";
  EXPECT_EQ(std::ranges::count(graph_.state_updates(), t, &StateUpdate::value), 2);
}

/// Expects that verify() rejects the graph in the text, with that message.
void expect_refused(const char* text, const char* message) {
  const Graph graph = parse_graph(text);
  EXPECT_THAT([&] { verify(graph); }, testing::ThrowsMessage<std::logic_error>(HasSubstr(message)));
}

TEST(VerifyLayouts, OfImagesThatCallersGiveOrTake) {
  expect_refused("graph g { input %x: f32[1, 2, 3, 3] channels_last }", "the input %x must be row-major");
  expect_refused("graph g { param %x: f32[1, 2, 3, 3] channels_last }", "the param %x must be row-major");
  expect_refused("graph g { state %x: f32[1, 2, 3, 3] channels_last }", "the state %x must be row-major");
  expect_refused(R"(graph g {
      input %x: f32[1, 2, 3, 3]
      %0: f32[1, 2, 3, 3] channels_last = reshape(%x) {shape = [1, 2, 3, 3]}
      output y = %0
    })",
                 "the output y must be row-major");
}

TEST(VerifyLayouts, OfResultsAreThoseOfTheirOperandsButForViewsAndRows) {
  expect_refused(R"(graph g {
      input %x: f32[1, 2, 3, 3]
      %0: f32[1, 2, 3, 3] channels_last = silu(%x)
    })",
                 "makes its result %1 in the layout of its operands, not channels_last");
  expect_refused(R"(graph g {
      input %x: f32[2, 9]
      %0: f32[1, 2, 3, 3] channels_last = reshape(%x) {shape = [1, 2, 3, 3]}
    })",
                 "makes a channels_last result %1 of other extents");
  EXPECT_NO_THROW(verify(parse_graph(R"(graph g {
      input %x: f32[5, 4, 2, 3, 3]
      input %i: i32[]
      %0: f32[4, 2, 3, 3] channels_last = row(%x, %i)
      %1: f32[1, 2, 3, 3] channels_last = slice(%0) {axis = 0, start = 1, size = 1}
      %2: f32[2, 1, 3, 3] channels_last = transpose(%1) {perm = [1, 0, 2, 3]}
      %3: f32[2, 1, 3, 3] channels_last = silu(%2)
      %4: f32[18] = reshape(%3) {shape = [18]}
      output y = %4
    })")));
}

TEST_F(VerifyTest, OutputThatNothingMakes) {
  rewrite([](auto& nodes) { nodes.pop_back(); });
  expect_broken("the output y", "before it is defined");
}

TEST_F(VerifyTest, OutputFromInsideALoop) {
  graph_.add_output("inner", early_);
  expect_broken("the output inner", "only inside region 1");
}

TEST_F(VerifyTest, CounterThatIsNoI32Scalar) {
  graph_.set_dtype(counter_, DType::kI64);
  expect_broken("%i", "i32 scalar");
}

}  // namespace
}  // namespace headroom
