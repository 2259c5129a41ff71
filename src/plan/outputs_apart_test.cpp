// The placement of outputs that get storages of their own.

#include <gtest/gtest.h>

#include <set>

#include "backends/backend.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

Program plan_apart(const char* text, bool arena) {
  return plan(parse_graph(text), make_backend(DeviceKind::kCpu, 1)->properties().target,
              {.arena = arena, .outputs_apart = true});
}

const Storage& storage_of(const Program& program, const Place& place) {
  return program.storages[static_cast<std::size_t>(place.storage)];
}

class OutputsApart : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Plans, OutputsApart, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Arena" : "Eager"; });

/// A result that could be overwritten in place, a view of it, one that a loop returns, and one that a branch makes.
TEST_P(OutputsApart, HaveAStorageEachThatKernelsWrite) {
  const Program program = plan_apart(R"(graph g {
    input %x: f32[4, 4]
    input %hit: bool[]
    %2: f32[4, 4] = silu(%x)
    %3: f32[4, 4] = relu(%2)
    %4: f32[16] = reshape(%2) {shape = [16]}
    loop 3 %i {
      %5: f32[4, 4] = add(%3, %x)
      yield %6: f32[4, 4] = %5
    }
    if %hit {
      %7: f32[4, 4] = mul(%6, %x)
      yield %8: f32[4, 4] = %7
    } else {
      %9: f32[4, 4] = sub(%6, %x)
      yield %8 = %9
    }
    output a = %2
    output b = %4
    output c = %6
    output d = %8
  })",
                                     GetParam());
  std::set<int> storages;
  for (const Place& output : program.outputs) {
    EXPECT_EQ(storage_of(program, output).kind, StorageKind::kOutput);
    EXPECT_EQ(output.offset_bytes, 0U);
    storages.insert(output.storage);
  }
  EXPECT_EQ(storages.size(), 4U);
  for (const Step& step : program.steps) {
    EXPECT_NE(step.prepared, nullptr) << "a copy of " << step.label;
    for (const Place& written : step.output_places) EXPECT_NE(storage_of(program, written).kind, StorageKind::kInput);
  }
}

TEST(OutputsApartPlan, HoldTheirPartsWhereTheyAreWritten) {
  const Program program = plan_apart(R"(graph g {
    input %x: f32[4, 4]
    %1: f32[4, 4] = silu(%x)
    %2: f32[4, 4] = relu(%x)
    %3: f32[8, 4] = concat(%1, %2) {axis = 0}
    output y = %3
  })",
                                     true);
  ASSERT_EQ(program.steps.size(), 2U);
  for (const Step& step : program.steps) EXPECT_EQ(step.output_places[0].storage, program.outputs[0].storage);
  EXPECT_EQ(storage_of(program, program.outputs[0]).kind, StorageKind::kOutput);
  EXPECT_EQ(program.arena_bytes, 0U);
}

TEST_P(OutputsApart, LeaveStatesAloneAndCopyWhatNobodyMakes) {
  const Program program = plan_apart(R"(graph g {
    input %x: f32[4]
    param %w: f32[4]
    state %s: f32[4]
    %3: f32[4] = add(%s, %x)
    next %s = %3
    output x = %x
    output w = %w
    output s = %s
  })",
                                     GetParam());
  EXPECT_EQ(storage_of(program, program.outputs[0]).kind, StorageKind::kOutput);
  EXPECT_EQ(storage_of(program, program.outputs[1]).kind, StorageKind::kOutput);
  EXPECT_EQ(storage_of(program, program.outputs[2]).kind, StorageKind::kState);
  EXPECT_NE(program.outputs[0].storage, program.outputs[1].storage);
}

}  // namespace
}  // namespace headroom
