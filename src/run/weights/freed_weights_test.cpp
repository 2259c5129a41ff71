// Checkpoints in memory of the caller, whose tensors are freed or moved when a program's weights are made of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "run/memory_need.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A copy to the device from tensors that the host may not read.
class DeviceOnlyBackend final : public ForwardingBackend {
 public:
  void copy_from_host(Stream& stream, DevicePointer device, const void* host, std::size_t bytes) override {
    if (!is_input) ++from_host;
    ForwardingBackend::copy_from_host(stream, device, host, bytes);
  }
  bool is_input = false;
  int from_host = 0;
};

class FreedWeightsTest : public testing::Test {
 protected:
  /// Both params are folded, `a` for two weights.
  static constexpr const char* kGraph = R"(graph g {
    input %x: f32[2, 4]
    param %a: bf16[4]
    param %b: bf16[4]
    %3: f32[4] = cast(%a) {dtype = f32}
    %4: f32[4] = cast(%b) {dtype = f32}
    %5: f32[4] = mul(%3, %4)
    %6: f32[2, 4] = add(%x, %3)
    %7: f32[2, 4] = mul(%6, %5)
    output y = %7
  })";

  Checkpoint checkpoint(bool on_device, FinishTensor finish) {
    std::vector<TensorInMemory> tensors;
    for (const auto& [name, tensor] : values_)
      tensors.push_back({.tensor = {.name = name, .dtype = tensor.dtype(), .shape = tensor.shape()},
                         .bytes = tensor.bytes(),
                         .is_on_device = on_device});
    return Checkpoint::of(nlohmann::json::object(), "ours", tensors_in_memory(tensors, nullptr, std::move(finish)));
  }

  std::shared_ptr<Program> program(const std::string& text = kGraph) {
    return std::make_shared<Program>(plan(parse_graph(text), backend_.properties().target, {.arena = true}));
  }

  HostTensor run(const std::shared_ptr<Program>& program, WeightStore& weights) {
    Session session(program, weights, backend_);
    const HostTensor x = random_f32({2, 4}, 3);
    backend_.is_input = true;
    session.set_input("x", x);
    session.run();
    backend_.is_input = false;
    return session.output("y");
  }

  static HostTensor narrow(std::uint64_t seed) {
    HostTensor tensor(DType::kBF16, {4});
    const HostTensor drawn = random_f32({4}, seed);
    for (std::int64_t i = 0; i < 4; ++i) tensor.set(i, drawn.at(i));
    return tensor;
  }

  DeviceOnlyBackend backend_;
  std::map<std::string, HostTensor> values_ = {{"a", narrow(1)}, {"b", narrow(2)}};
};

TEST_F(FreedWeightsTest, TensorsAreFreedOnceAfterTheirLastFolding) {
  const Checkpoint kept = checkpoint(false, {});
  WeightStore plain(backend_, kept);
  const HostTensor expected = run(program(), plain);
  EXPECT_EQ(memory_need(*program(), plain).freed, 0U);

  std::vector<std::string> freed;
  const Checkpoint ours = checkpoint(false, [&](const std::string& name) {
    std::ranges::fill(values_.at(name).bytes(), std::byte{0x7f});  // NaN, for whoever reads it again
    freed.push_back(name);
    return std::optional<std::span<const std::byte>>();
  });
  WeightStore weights(backend_, ours);
  EXPECT_EQ(memory_need(*program(), weights).freed, 2 * 4 * sizeof(std::uint16_t));
  expect_same(run(program(), weights), expected);
  EXPECT_THAT(freed, testing::UnorderedElementsAre("a", "b"));
  EXPECT_EQ(memory_need(*program(), weights).freed, 0U);
  expect_same(run(program(), weights), expected);
  EXPECT_EQ(freed.size(), 2U);

  std::string other = kGraph;  // which needs another weight
  other.replace(other.find("mul(%3, %4)"), 11, "add(%3, %4)");
  EXPECT_THAT(message_of([&] { run(program(other), weights); }), HasSubstr("was freed when it had been loaded"));
}

TEST_F(FreedWeightsTest, WhatHasMovedIsReadWhereItIs) {
  std::map<std::string, HostTensor> moved;
  const Checkpoint ours = checkpoint(false, [&](const std::string& name) {
    const HostTensor& copy = moved.emplace(name, values_.at(name)).first->second;
    std::ranges::fill(values_.at(name).bytes(), std::byte{0x7f});
    return std::optional<std::span<const std::byte>>(copy.bytes());
  });
  WeightStore weights(backend_, ours);
  const HostTensor first = run(program(), weights);
  weights.keep_only(std::span<const Program* const>());  // folds again
  expect_same(run(program(), weights), first);
}

TEST_F(FreedWeightsTest, TensorsOnTheDeviceAreNotReadByTheHost) {
  const Checkpoint kept = checkpoint(false, {});
  WeightStore plain(backend_, kept);
  const HostTensor expected = run(program(), plain);
  EXPECT_GT(backend_.from_host, 0);
  backend_.from_host = 0;
  const Checkpoint ours = checkpoint(true, {});
  WeightStore weights(backend_, ours);
  expect_same(run(program(), weights), expected);
  EXPECT_EQ(backend_.from_host, 0);
}

}  // namespace
}  // namespace headroom
