#include "plan/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "plan/test_util.hpp"

namespace headroom {
namespace {

Program plan_text(const char* text, bool arena) {
  return plan(parse_graph(text), Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = arena});
}

std::vector<Op> launched(const Program& program) {
  std::vector<Op> ops;
  for (const Step& step : program.steps) ops.push_back(step.op);
  return ops;
}

constexpr const char* kHeads = R"(graph heads {
  input %x: f32[2, 5, 12]
  %1: f32[2, 5, 3, 4] = reshape(%x) {shape = [2, 5, 3, 4]}
  %2: f32[2, 3, 5, 4] = transpose(%1) {perm = [0, 2, 1, 3]}
  %3: f32[2, 3, 5, 4] = silu(%2)
  output y = %3
})";

TEST(Placement, EagerCopiesATransposeAndSharesAReshape) {
  EXPECT_EQ(launched(plan_text(kHeads, false)), (std::vector{Op::kTranspose, Op::kSilu}));
}

TEST(Placement, ArenaReadsATransposeThroughStrides) {
  const Program program = plan_text(kHeads, true);
  EXPECT_EQ(launched(program), std::vector{Op::kSilu});
  EXPECT_EQ(program.steps[0].input_places[0].strides, (Shape{60, 4, 12, 1}));
  EXPECT_EQ(program.elided, 2);
}

TEST(Placement, PartsOfAConcatenationAreWrittenInPlace) {
  const Program program = plan_text(R"(graph parts {
    input %a: f32[2, 3, 8]
    input %b: f32[2, 5, 8]
    %2: f32[2, 3, 8] = silu(%a)
    %3: f32[2, 5, 8] = relu(%b)
    %4: f32[2, 8, 8] = concat(%2, %3) {axis = 1}
    output y = %4
  })",
                                    true);
  EXPECT_EQ(launched(program), (std::vector{Op::kSilu, Op::kRelu}));
  EXPECT_EQ(program.steps[0].output_places[0].storage, program.steps[1].output_places[0].storage);
  EXPECT_EQ(program.steps[1].output_places[0].offset_bytes, 3U * 8U * sizeof(float));
  EXPECT_EQ(program.steps[1].output_places[0].strides, (Shape{64, 8, 1}));
}

TEST(Placement, APartThatIsAViewIsWrittenInPlaceByWhatMakesItsOperand) {
  // The end of attention next to an MLP: the heads concatenated, next to the MLP's result.
  const Program program = plan_text(R"(graph both {
    input %heads: f32[2, 3, 5, 4]
    input %mlp: f32[2, 5, 8]
    %2: f32[2, 3, 5, 4] = silu(%heads)
    %3: f32[2, 5, 3, 4] = transpose(%2) {perm = [0, 2, 1, 3]}
    %4: f32[2, 5, 12] = reshape(%3) {shape = [2, 5, 12]}
    %5: f32[2, 5, 8] = relu(%mlp)
    %6: f32[2, 5, 20] = concat(%4, %5) {axis = 2}
    output y = %6
  })",
                                    true);
  EXPECT_EQ(launched(program), (std::vector{Op::kSilu, Op::kRelu}));
  EXPECT_EQ(program.steps[0].output_places[0].strides, (Shape{100, 4, 20, 1}));
  EXPECT_EQ(program.steps[1].output_places[0].offset_bytes, 12U * sizeof(float));
}

TEST(Placement, AViewWhoseOperandIsReadElsewhereStaysAView) {
  const Program program = plan_text(R"(graph read_twice {
    input %x: f32[2, 3, 4]
    input %mlp: f32[2, 8]
    %2: f32[2, 3, 4] = silu(%x)
    %3: f32[2, 12] = reshape(%2) {shape = [2, 12]}
    %4: f32[2, 8] = relu(%mlp)
    %5: f32[2, 20] = concat(%3, %4) {axis = 1}
    output y = %5
    output z = %2
  })",
                                    true);
  EXPECT_EQ(launched(program), (std::vector{Op::kSilu, Op::kRelu, Op::kConcat}));
}

TEST(Placement, AnOutputThatIsRearrangedIsWrittenInPlaceByWhatMakesIt) {
  const Program program = plan_text(R"(graph shuffle {
    input %x: f32[2, 8, 3, 5]
    %1: f32[2, 2, 2, 2, 3, 5] = reshape(%x) {shape = [2, 2, 2, 2, 3, 5]}
    %2: f32[2, 2, 3, 2, 5, 2] = transpose(%1) {perm = [0, 1, 4, 2, 5, 3]}
    %3: f32[2, 2, 6, 10] = reshape(%2) {shape = [2, 2, 6, 10]}
    %4: f32[2, 8, 3, 5] = silu(%x)
    %5: f32[2, 120] = reshape(%4) {shape = [2, 120]}
    output y = %3
    output z = %5
  })",
                                    true);
  EXPECT_EQ(launched(program), (std::vector{Op::kTranspose, Op::kSilu}));
}

TEST(Placement, AConcatenationOfInputsIsACopy) {
  const Program program = plan_text(R"(graph copy {
    input %a: f32[2, 3]
    %1: f32[4, 3] = concat(%a, %a) {axis = 0}
    output y = %1
  })",
                                    true);
  EXPECT_EQ(launched(program), std::vector{Op::kConcat});
}

TEST(Placement, AKernelWritesOneOfTwoPartsThatAreViewsOfItsResult) {
  const Program program = plan_text(R"(graph twice {
    input %a: f32[2, 1, 16]
    %1: f32[2, 1, 16] = relu(%a)
    %2: f32[2, 1, 16] = reshape(%1) {shape = [2, 1, 16]}
    %3: f32[2, 2, 16] = concat(%1, %2) {axis = 1}
    output y = %3
  })",
                                    true);
  EXPECT_EQ(launched(program), (std::vector{Op::kRelu, Op::kConcat}));
}

TEST(Placement, WhatIsReshapedIntoOneConcatenationIsNoPartOfAnother) {
  const Program program = plan_text(R"(graph twice {
    input %a: f32[2, 1, 16]
    input %b: f32[2, 1, 16]
    %2: f32[2, 1, 16] = relu(%a)
    %3: f32[2, 1, 16] = reshape(%2) {shape = [2, 1, 16]}
    %4: f32[2, 1, 16] = relu(%b)
    %5: f32[2, 2, 16] = concat(%4, %2) {axis = 1}
    %6: f32[2, 1, 16] = relu(%b)
    %7: f32[2, 2, 16] = concat(%6, %3) {axis = 1}
    output y = %5
    output z = %7
  })",
                                    true);
  // The relu writes its result into %5, and the reshape copies it from there into %7.
  EXPECT_EQ(launched(program), (std::vector{Op::kRelu, Op::kReshape, Op::kRelu, Op::kRelu}));
}

constexpr std::int64_t kRow = 24;  // queries, keys and values of two heads of 4, concatenated

/// The values of two streams' merged QKV, joined along the tokens and read by one kernel.
Graph joined_streams(std::int64_t batch, std::int64_t text_tokens, std::int64_t image_tokens) {
  Graph graph("streams");
  Builder b(graph);
  const auto values = [&](const char* name, std::int64_t tokens) {
    const ValueId qkv = b.silu(graph.add_input(name, TensorType{.shape = {batch, tokens, kRow}}));
    return b.transpose(b.reshape(b.slice(qkv, 2, 16, 8), {batch, tokens, 2, 4}), {0, 2, 1, 3});
  };
  const ValueId text = values("text", text_tokens);
  graph.add_output("y", b.relu(b.concat({text, values("image", image_tokens)}, 2)));
  return graph;
}

Program plan_arena(const Graph& graph) {
  return plan(graph, Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = true});
}

TEST(Placement, RowsThatLieOneBehindTheOtherAreJoinedWithoutACopy) {
  for (const auto& [text, image] : {std::pair(3, 5), std::pair(1, 5), std::pair(3, 1), std::pair(1, 1)}) {
    const Program program = plan_arena(joined_streams(1, text, image));
    ASSERT_EQ(launched(program), (std::vector{Op::kSilu, Op::kSilu, Op::kRelu}));
    const Place& of_text = program.steps[0].output_places[0];
    const Place& of_image = program.steps[1].output_places[0];
    const Place& joined = program.steps[2].input_places[0];
    EXPECT_EQ(of_text.offset_bytes, 0U);
    EXPECT_EQ(of_text.strides, (Shape{text * kRow, kRow, 1})) << "a kernel writes its part as it would alone";
    EXPECT_EQ(of_image.storage, of_text.storage);
    EXPECT_EQ(of_image.offset_bytes, static_cast<std::size_t>(text * kRow) * sizeof(float));
    EXPECT_EQ(of_image.strides, (Shape{image * kRow, kRow, 1}));
    EXPECT_EQ(joined.storage, of_text.storage);
    EXPECT_EQ(joined.offset_bytes, 16 * sizeof(float));
    EXPECT_EQ(joined.strides, (Shape{8, 4, kRow, 1}));
    EXPECT_EQ(program.storages[static_cast<std::size_t>(of_text.storage)].bytes,
              static_cast<std::size_t>((text + image) * kRow) * sizeof(float));
  }
}

TEST(Placement, RowsOfSeveralRequestsAreJoinedByACopy) {
  EXPECT_EQ(launched(plan_arena(joined_streams(2, 3, 5))), (std::vector{Op::kSilu, Op::kSilu, Op::kConcat, Op::kRelu}));
}

/// The number of copies in a graph of joined columns. `make` gets rows that kernels write, [3, 24], [5, 24] and [5,
/// 32].
int concats_launched(const std::function<void(Builder&, ValueId, ValueId, ValueId)>& make) {
  Graph graph("columns");
  Builder b(graph);
  const auto rows = [&](const char* name, Shape shape) {
    return b.silu(graph.add_input(name, TensorType{.shape = shape}));
  };
  const ValueId text = rows("text", {3, kRow});
  const ValueId image = rows("image", {5, kRow});
  make(b, text, image, rows("wide", {5, 32}));
  return static_cast<int>(std::ranges::count(launched(plan_arena(graph)), Op::kConcat));
}

TEST(Placement, ColumnsThatDoNotLieInOneGridAreJoinedByACopy) {
  using Parts = std::vector<ValueId>;
  const auto copies = [](const auto& parts_of) {
    return concats_launched([&](Builder& b, ValueId text, ValueId image, ValueId wide) {
      b.graph().add_output("y", b.relu(b.concat(parts_of(b, text, image, wide), 0)));
    });
  };
  EXPECT_EQ(copies([](Builder& b, ValueId text, ValueId image, ValueId) {
              return Parts{b.slice(text, 1, 16, 8), b.slice(image, 1, 16, 8)};
            }),
            0);
  EXPECT_EQ(copies([](Builder& b, ValueId text, ValueId, ValueId wide) {
              return Parts{b.slice(text, 1, 16, 8), b.slice(wide, 1, 16, 8)};
            }),
            1)
      << "rows of other lengths";
  EXPECT_EQ(copies([](Builder& b, ValueId text, ValueId image, ValueId) {
              return Parts{b.slice(text, 1, 16, 8), b.slice(image, 1, 8, 8)};
            }),
            1)
      << "other columns";
  EXPECT_EQ(copies([](Builder& b, ValueId text, ValueId, ValueId) {
              return Parts{b.slice(text, 1, 0, 8), b.slice(text, 1, 0, 8)};
            }),
            1)
      << "columns of one value";
  EXPECT_EQ(copies([](Builder& b, ValueId text, ValueId image, ValueId) {
              return Parts{b.slice(text, 1, 16, 8), b.slice(image, 1, 16, 8), b.slice(b.relu(image), 1, 8, 8)};
            }),
            1)
      << "other columns in the third part";
}

TEST(Placement, WhatMustLieElsewhereIsNotJoinedInPlace) {
  EXPECT_EQ(concats_launched([](Builder& b, ValueId text, ValueId image, ValueId) {
              b.graph().add_output("x", image);
              b.graph().add_output("y", b.relu(b.concat({b.slice(text, 1, 0, 8), b.slice(image, 1, 0, 8)}, 0)));
            }),
            1)
      << "an output";
  EXPECT_EQ(concats_launched([](Builder& b, ValueId text, ValueId image, ValueId) {
              b.graph().add_output("y", b.concat({b.slice(text, 1, 0, 8), b.slice(image, 1, 0, 8)}, 0));
            }),
            1)
      << "the whole is an output";
  EXPECT_EQ(concats_launched([](Builder& b, ValueId text, ValueId image, ValueId wide) {
              const ValueId both = b.concat({text, b.relu(b.slice(wide, 1, 0, kRow))}, 0);
              b.graph().add_output("x", b.relu(both));
              b.graph().add_output("y", b.relu(b.concat({b.slice(text, 1, 0, 8), b.slice(image, 1, 0, 8)}, 0)));
            }),
            1)
      << "a part of another concatenation";
  EXPECT_EQ(concats_launched([](Builder& b, ValueId text, ValueId image, ValueId wide) {
              const ValueId joined = b.concat({b.slice(text, 1, 0, 8), b.slice(image, 1, 0, 8)}, 0);
              b.graph().add_output("y", b.concat({joined, b.relu(b.slice(wide, 1, 0, 8))}, 0));
            }),
            1)
      << "the whole is a part of another concatenation";
}

TEST(Placement, ResultsThatShareAStorageOverwriteNoOperand) {
  Graph graph("chains");
  Builder b(graph);
  const auto columns = [&](const char* name, std::int64_t tokens) {
    const ValueId x = graph.add_input(name, TensorType{.shape = {tokens, kRow}});
    return b.slice(b.relu(b.silu(x)), 1, 16, 8);
  };
  const ValueId text = columns("text", 3);
  graph.add_output("y", b.relu(b.concat({text, columns("image", 5)}, 0)));
  const Program program = plan_arena(graph);
  ASSERT_EQ(launched(program), (std::vector{Op::kSilu, Op::kRelu, Op::kSilu, Op::kRelu, Op::kRelu}));
  for (const std::size_t relu : {1U, 3U}) {
    const Step& step = program.steps[relu];
    EXPECT_EQ(step.output_places[0].storage, program.steps[4].input_places[0].storage);
    EXPECT_NE(step.output_places[0].storage, step.input_places[0].storage);
  }
}

TEST(Placement, AnElementwiseResultOverwritesADyingOperand) {
  const Program program = plan_text(R"(graph chain {
    input %x: f32[16]
    %1: f32[16] = silu(%x)
    %2: f32[16] = relu(%1)
    %3: f32[16] = add(%2, %x)
    output y = %3
  })",
                                    true);
  EXPECT_EQ(program.arena_bytes, 256U);
  EXPECT_NE(program.steps[0].output_places[0].storage,
            program.steps[0].input_places[0].storage);  // never over an input
  EXPECT_EQ(program.steps[1].output_places[0].storage, program.steps[1].input_places[0].storage);
}

/// The places of `fused(%1, %2)` with two results, planned with a kernel that may write over these inputs.
struct TwoResults {
  Place first, second;            ///< results
  Place first_input, last_input;  ///< read by it alone
};
TwoResults place_two_results(const std::string& outputs, std::set<std::pair<int, int>> pairs) {
  const std::string body = R"({body = graph two {
    input %a: f32[4, 4]
    input %b: f32[4, 4]
    %0: f32[4, 4] = add(%a, %b)
    %1: f32[4, 4] = mul(%a, %b)
    output y0 = %0
    output y1 = %1
  }})";
  const std::string text = "graph g {\n input %x: f32[4, 4]\n %1: f32[4, 4], %2: f32[4, 4] = fused(%x, %x) " + body +
                           "\n %3: f32[4, 4], %4: f32[4, 4] = fused(%1, %2) " + body + "\n" + outputs + "\n}";
  const OverInputs kernel(std::move(pairs));
  const Kernel* const kernels[] = {&kernel};
  const Program program =
      plan(parse_graph(text), Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = true}, kernels);
  const Step& step = program.steps.at(1);
  return {step.output_places[0], step.output_places[1], step.input_places[0], step.input_places[1]};
}

TEST(Placement, EveryResultMayOverwriteADyingOperand) {
  const std::string both = "output y = %3\n output z = %4";
  const TwoResults second = place_two_results(both, {{0, 1}});
  EXPECT_EQ(second.second, second.first_input);
  EXPECT_NE(second.first, second.first_input);
  EXPECT_NE(second.first, second.last_input);
  const TwoResults each = place_two_results(both, {{0, 0}, {1, 1}});
  EXPECT_EQ(each.first, each.first_input);
  EXPECT_EQ(each.second, each.last_input);
}

TEST(Placement, NoTwoResultsOverwriteOneOperandEvenIfOneIsNotRead) {
  const TwoResults same = place_two_results("output z = %4", {{0, 0}, {0, 1}});
  EXPECT_EQ(same.first, same.first_input);
  EXPECT_NE(same.second, same.first_input);
}

TEST(Placement, AValueReadAgainIsNotOverwritten) {
  const Program program = plan_text(R"(graph again {
    input %x: f32[16]
    %1: f32[16] = silu(%x)
    %2: f32[16] = relu(%1)
    %3: f32[16] = add(%2, %1)
    output y = %3
  })",
                                    true);
  EXPECT_NE(program.steps[1].output_places[0].storage, program.steps[1].input_places[0].storage);
}

TEST(Placement, AViewKeepsItsWholeOperandAlive) {
  const Program program = plan_text(R"(graph views {
    input %x: f32[2, 16]
    %1: f32[2, 16] = silu(%x)
    %2: f32[2, 8] = slice(%1) {axis = 1, size = 8, start = 8}
    %3: f32[2, 16] = relu(%1)
    %4: f32[2, 8] = slice(%3) {axis = 1, size = 8, start = 0}
    %5: f32[2, 8] = add(%2, %4)
    output y = %5
  })",
                                    true);
  EXPECT_EQ(launched(program), (std::vector{Op::kSilu, Op::kRelu, Op::kAdd}));
  EXPECT_NE(program.steps[1].output_places[0].storage, program.steps[0].output_places[0].storage);
}

constexpr const char* kLoop = R"(graph loop {
  input %d: f32[3, 4]
  input %w: f32[4]
  state %s: f32[4]
  %3: f32[4] = silu(%w)
  loop 3 %i {
    %5: f32[4] = row(%d, %i)
    %6: f32[4] = mul(%5, %3)
    %7: f32[4] = add(%s, %6)
    next %s = %7
  }
  output s = %s
})";

TEST(Placement, ALoopKeepsWhatWasMadeBeforeItAndWritesItsStateInPlace) {
  const Program program = plan_text(kLoop, true);
  const int before = program.steps[0].output_places[0].storage;
  EXPECT_EQ(program.storages[static_cast<std::size_t>(before)].last, 3);  // the loop's last step
  const Step& update = program.steps.back();
  EXPECT_EQ(update.op, Op::kAdd);
  EXPECT_EQ(program.storages[static_cast<std::size_t>(update.output_places[0].storage)].kind, StorageKind::kState);
}

TEST(Placement, ChunksOfARowOfATableForAllStepsAreViewsAndTheTableOutlivesTheLoop) {
  const Program program = plan_text(R"(graph hoisted {
    input %temb: f32[3, 2, 4]
    input %w: f32[8, 4]
    state %s: f32[2, 5, 4]
    %1: f32[3, 2, 8] = linear(%temb, %w)
    %2: f32[3, 2, 8] = silu(%1)
    loop 3 %i {
      %3: f32[2, 8] = row(%2, %i)
      %4: f32[2, 4] = slice(%3) {axis = 1, start = 0, size = 4}
      %5: f32[2, 1, 4] = reshape(%4) {shape = [2, 1, 4]}
      %6: f32[2, 4] = slice(%3) {axis = 1, start = 4, size = 4}
      %7: f32[2, 1, 4] = reshape(%6) {shape = [2, 1, 4]}
      %8: f32[2, 5, 4] = norm_modulate(%s, %5, %7) {eps = 1e-06}
      next %s = %8
    }
    output s = %s
  })",
                                    true);
  EXPECT_EQ(launched(program), (std::vector{Op::kLinear, Op::kSilu, Op::kRow, Op::kNormModulate}));
  const Place& row = program.steps[2].output_places[0];
  EXPECT_EQ(program.steps[3].input_places[1].storage, row.storage);
  EXPECT_EQ(program.steps[3].input_places[2].offset_bytes, row.offset_bytes + 4 * sizeof(float));
  const Storage& table = program.storages[static_cast<std::size_t>(program.steps[1].output_places[0].storage)];
  EXPECT_EQ(table.last, 3) << "the next iteration reads another row of it";
  const Storage& read = program.storages[static_cast<std::size_t>(row.storage)];
  EXPECT_TRUE(read.arena_offset + read.bytes <= table.arena_offset ||
              table.arena_offset + table.bytes <= read.arena_offset);
}

TEST(Placement, EagerCopiesTheNextStateAtTheEndOfAnIteration) {
  const Program program = plan_text(kLoop, false);
  EXPECT_EQ(program.steps.back().node, -1);
  EXPECT_EQ(program.root.children.back().kind, SegmentKind::kLoop);
  EXPECT_EQ(program.root.children.back().last, static_cast<int>(program.steps.size()));
}

TEST(Placement, AStateReadAfterItsNextValueIsKept) {
  const Program program = plan_text(R"(graph late {
    input %d: f32[4]
    state %s: f32[4]
    state %t: f32[4]
    %3: f32[4] = add(%s, %d)
    %4: f32[4] = mul(%s, %t)
    next %s = %3
    next %t = %4
  })",
                                    true);
  EXPECT_EQ(program.storages[static_cast<std::size_t>(program.steps[0].output_places[0].storage)].kind,
            StorageKind::kArena);
  EXPECT_EQ(program.storages[static_cast<std::size_t>(program.steps[1].output_places[0].storage)].kind,
            StorageKind::kState);
}

/// The device's relu, restricted to operands at multiples of 16 bytes.
class Aligned final : public Kernel {
 public:
  explicit Aligned(const Kernel& real) : real_(real) {}
  [[nodiscard]] std::string_view name() const override { return "aligned.relu"; }
  [[nodiscard]] Op op() const override { return Op::kRelu; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::kCpu; }
  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    return real_.supports(spec, target);
  }
  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int /*input*/) const override {
    return {StrideRule::kInnerDense, 16};
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return {StrideRule::kInnerDense, 16};
  }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return real_.compute_type(spec); }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const DeviceTarget& target) const override {
    return real_.prepare(spec, inputs, outputs, target);
  }

 private:
  const Kernel& real_;
};

/// The ops launched if such a kernel reads columns of rows of `row` elements, or writes them into a concatenation.
std::vector<Op> launched_aligned(std::int64_t row, std::int64_t start, bool reads) {
  std::vector<const Kernel*> kernels;
  for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) kernels.push_back(kernel);
  const auto real = std::ranges::find(kernels, Op::kRelu, &Kernel::op);
  const Aligned aligned(**real);
  kernels.insert(kernels.begin(), &aligned);
  Graph graph("columns");
  Builder b(graph);
  if (reads) {
    graph.add_output("y", b.relu(b.slice(graph.add_input("x", TensorType{.shape = {3, row}}), 1, start, 8)));
  } else {
    const ValueId left = b.silu(graph.add_input("left", TensorType{.shape = {3, start}}));
    const ValueId right = b.relu(graph.add_input("right", TensorType{.shape = {3, row - start}}));
    graph.add_output("y", b.silu(b.concat({left, right}, 1)));
  }
  return launched(plan(graph, Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = true}, kernels));
}

TEST(Placement, WhereAKernelAsksForAlignmentItIsGivenAlignedViewsAndElseACopy) {
  EXPECT_EQ(launched_aligned(20, 4, true), std::vector{Op::kRelu});
  EXPECT_EQ(launched_aligned(20, 2, true), (std::vector{Op::kSlice, Op::kRelu})) << "the address";
  EXPECT_EQ(launched_aligned(18, 4, true), (std::vector{Op::kSlice, Op::kRelu})) << "the stride";
  EXPECT_EQ(launched_aligned(20, 4, false), (std::vector{Op::kSilu, Op::kRelu, Op::kSilu}));
  EXPECT_EQ(launched_aligned(20, 2, false), (std::vector{Op::kSilu, Op::kRelu, Op::kConcat, Op::kSilu}));
}

}  // namespace
}  // namespace headroom
