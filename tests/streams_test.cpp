// The switch `streams`: whatever may run at the same time touches no byte of which the other writes one.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "kernels/core/fusion_rules.hpp"
#include "passes/pass.hpp"
#include "pipelines/generator.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

/// Elements of the arena that a step reads or writes, by the address of their first byte, in order.
struct Access {
  std::vector<std::size_t> elements;
  std::size_t element_bytes = 1;
  bool writes = false;
};

std::vector<std::size_t> addresses(std::size_t base, const TensorType& type, const Shape& strides) {
  std::vector<std::size_t> at = {base};
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    std::vector<std::size_t> next;
    for (const std::size_t address : at)
      for (std::int64_t i = 0; i < type.shape[axis]; ++i)
        next.push_back(address + static_cast<std::size_t>(i * strides[axis]) * size_of(type.dtype));
    at = std::move(next);
  }
  std::ranges::sort(at);
  return at;
}

std::vector<Access> accesses_of(const Program& program, const Step& step) {
  std::vector<Access> accesses;
  const auto add = [&](const Place& place, ValueId value, bool writes) {
    if (place.storage < 0) return;
    const Storage& storage = program.storages[static_cast<std::size_t>(place.storage)];
    if (storage.kind != StorageKind::kArena) return;
    const TensorType& type = program.graph.type(value);
    accesses.push_back(
        {addresses(storage.arena_offset + place.offset_bytes, type, place.strides), size_of(type.dtype), writes});
  };
  for (std::size_t i = 0; i < step.inputs.size(); ++i) add(step.input_places[i], step.inputs[i], false);
  for (std::size_t i = 0; i < step.outputs.size(); ++i) add(step.output_places[i], step.outputs[i], true);
  if (step.scratch >= 0) {
    const Storage& scratch = program.storages[static_cast<std::size_t>(step.scratch)];
    accesses.push_back({{scratch.arena_offset}, scratch.bytes, true});
  }
  return accesses;
}

bool share_a_byte(const Access& a, const Access& b) {
  for (std::size_t i = 0, k = 0; i < a.elements.size() && k < b.elements.size();) {
    if (a.elements[i] + a.element_bytes <= b.elements[k])
      ++i;
    else if (b.elements[k] + b.element_bytes <= a.elements[i])
      ++k;
    else
      return true;
  }
  return false;
}

void collect_straight(const Segment& segment, std::vector<Segment>& straight) {
  if (segment.children.empty()) straight.push_back(segment);
  for (const Segment& child : segment.children) collect_straight(child, straight);
}

class StreamsTest : public testing::TestWithParam<const char*> {};

TEST_P(StreamsTest, NothingAtOnceTouchesTheSameBytes) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline((source_dir(kSourceDir) / GetParam()).string());
  Graph graph =
      pipeline->build_denoise(pipeline->resolve({.images = 2, .token_rows = 2, .token_columns = 3, .switches = {}}));
  const DeviceTarget target = Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1, .fusion = &kernel_rules()};
  (void)optimize(graph, SwitchSet::parse("flash,fuse,hoist"), target);
  const Program program = plan(std::move(graph), target, {.arena = true, .lanes = 2});
  ASSERT_EQ(program.lanes, 2);

  std::vector<Segment> straight;
  collect_straight(program.root, straight);
  int at_once = 0;
  for (const Segment& segment : straight) {
    const auto count = static_cast<std::size_t>(segment.last - segment.first);
    // before[i][k]: step k of the stretch has run when step i begins.
    std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
    std::vector<int> tail(2, -1);
    for (std::size_t i = 0; i < count; ++i) {
      const Step& step = program.steps[static_cast<std::size_t>(segment.first) + i];
      std::vector<int> direct;
      for (const int wait : step.waits) direct.push_back(wait - segment.first);
      direct.push_back(tail[static_cast<std::size_t>(step.lane)]);
      for (const int k : direct) {
        if (k < 0) continue;
        before[i][static_cast<std::size_t>(k)] = true;
        for (std::size_t j = 0; j < count; ++j)
          if (before[static_cast<std::size_t>(k)][j]) before[i][j] = true;
      }
      tail[static_cast<std::size_t>(step.lane)] = static_cast<int>(i);
    }
    std::vector<std::vector<Access>> accesses;
    for (int i = segment.first; i < segment.last; ++i)
      accesses.push_back(accesses_of(program, program.steps[static_cast<std::size_t>(i)]));
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < i; ++k) {
        if (before[i][k]) continue;
        ++at_once;
        const Step& late = program.steps[static_cast<std::size_t>(segment.first) + i];
        const Step& early = program.steps[static_cast<std::size_t>(segment.first) + k];
        for (const Access& a : accesses[i])
          for (const Access& b : accesses[k])
            EXPECT_TRUE((!a.writes && !b.writes) || !share_a_byte(a, b))
                << early.label << " " << name_of(early.op) << " concurrently with " << late.label << " "
                << name_of(late.op);
      }
  }
  EXPECT_GT(at_once, 20);  // the text and the image of every double block, at least
}

INSTANTIATE_TEST_SUITE_P(Flux, StreamsTest, testing::Values("models/fashion-flux", "tests/goldens/flux/tiny-guidance"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace headroom
