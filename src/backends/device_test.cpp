#include "backends/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "backends/cuda/gpu_test.hpp"
#include "backends/rank_backend.hpp"
#include "base/error.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr Device gpu(int index) { return {.kind = DeviceKind::kCuda, .index = index}; }

/// The sentence and exit code that it fails with.
struct Failure {
  std::string sentence = "no error";
  ExitCode code = ExitCode::kOk;
};
Failure failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.what(), error.code()};
  }
  return {};
}
Failure refusal(const char* device, const GpuSurvey& survey) {
  return failure_of([&] { (void)choose_device(parse_device(device), survey); });
}

TEST(Device, IsReadFromItsName) {
  EXPECT_EQ(parse_device("auto"), DeviceRequest{});
  EXPECT_EQ(parse_device("cpu"), (DeviceRequest{.kind = DeviceKind::kCpu}));
  EXPECT_EQ(parse_device("cuda"), (DeviceRequest{.kind = DeviceKind::kCuda, .index = 0}));
  EXPECT_EQ(parse_device("cuda:12"), (DeviceRequest{.kind = DeviceKind::kCuda, .index = 12}));
  EXPECT_EQ(parse_device("cuda:0-3"), (DeviceRequest{.kind = DeviceKind::kCuda, .index = 0, .count = 4}));
  EXPECT_EQ(parse_device("cuda:2-2"), (DeviceRequest{.kind = DeviceKind::kCuda, .index = 2, .count = 1}));
  for (const char* wrong : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1 ", "cuda:1x",
                            "cuda:99999999999", "auto:0", "cuda:2-1", "cuda:0-", "cuda:-2", "cuda:0-1-2"}) {
    const Failure failure = failure_of([&] { (void)parse_device(wrong); });
    EXPECT_EQ(failure.code, ExitCode::kUsage) << wrong;
    EXPECT_THAT(failure.sentence, HasSubstr("expected auto, cpu, cuda, cuda:N")) << wrong;
  }
  EXPECT_EQ(name_of(Device{}), "cpu");
  EXPECT_EQ(name_of(gpu(1)), "cuda:1");
  EXPECT_EQ(name_of(Device{.kind = DeviceKind::kCuda, .index = 1, .count = 3}), "cuda:1-3");
}

TEST(Device, OfAutoIsTheFirstGpuThatCanBeUsedElseTheCpu) {
  const auto automatic = [](const GpuSurvey& survey) { return choose_device(parse_device("auto"), survey); };
  EXPECT_EQ(automatic({.gpus = {}, .obstacle = "there is no driver"}), Device{});
  EXPECT_EQ(automatic({.gpus = {{"A", ""}, {"B", ""}}, .obstacle = ""}), gpu(0));
  EXPECT_EQ(automatic({.gpus = {{"A", "it is too old"}, {"B", ""}}, .obstacle = ""}), gpu(1));
  EXPECT_EQ(automatic({.gpus = {{"A", "it is too old"}}, .obstacle = ""}), Device{});
}

TEST(Device, ThatIsNamedIsThatOrAnErrorWithThoseThereAre) {
  const GpuSurvey one{.gpus = {{"A", ""}}, .obstacle = ""};
  const GpuSurvey three{.gpus = {{"A", ""}, {"B", "it is too old"}, {"C", ""}}, .obstacle = ""};
  EXPECT_EQ(choose_device(parse_device("cpu"), three), Device{});
  EXPECT_EQ(choose_device(parse_device("cuda"), three), gpu(0));
  EXPECT_EQ(choose_device(parse_device("cuda:2"), three), gpu(2));

  EXPECT_EQ(refusal("cuda:1", one).sentence, "device cuda:1 was asked for, but there is 1 GPU, cuda:0");
  EXPECT_EQ(refusal("cuda:1", one).code, ExitCode::kUsage);
  EXPECT_EQ(refusal("cuda:0-1", one).sentence, "device cuda:0-1 was asked for, but there is 1 GPU, cuda:0");
  EXPECT_EQ(refusal("cuda:0-2", three).sentence, "device cuda:1 was asked for, but it is too old");
  EXPECT_EQ(refusal("cuda:3", three).sentence,
            "device cuda:3 was asked for, but there are 3 GPUs, cuda:0, cuda:1 and cuda:2");
  EXPECT_EQ(refusal("cuda:1", three).sentence, "device cuda:1 was asked for, but it is too old");
  EXPECT_EQ(refusal("cuda:1", three).code, ExitCode::kError);
  EXPECT_EQ(refusal("cuda", {.gpus = {}, .obstacle = "there is no driver"}).sentence,
            "device cuda was asked for, but there is no driver");
}

TEST(Device, OfACpuIsNoGpu) {
  const std::unique_ptr<Backend> backend = make_backend(find_device("cpu"), 1);
  EXPECT_EQ(backend->properties().target.device, DeviceKind::kCpu);
  EXPECT_FALSE(gpu_of(*backend).has_value());
  EXPECT_EQ(pci_bus_id_of(*backend), "");
  EXPECT_EQ(device_of(*backend), Device{});
}

TEST(Device, SurveyTellsWhyThereAreNoGpus) {
  const GpuSurvey survey = survey_gpus();
  EXPECT_EQ(survey.obstacle.empty(), !survey.gpus.empty());
}

class DeviceOnGpu : public GpuTest {};

TEST_F(DeviceOnGpu, HasAnIdentity) {
  const std::optional<GpuIdentity> identity = gpu_of(backend());
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->index, 0);
  EXPECT_EQ(identity->name, survey_gpus().gpus.front().name);
  EXPECT_THAT(identity->uuid, MatchesRegex("(GPU|MIG)-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"));
  EXPECT_THAT(identity->pci_bus_id, MatchesRegex("[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\\.[0-9]"));
}

TEST_F(DeviceOnGpu, HasRanksOnTheNamedGpusAlone) {
  const std::unique_ptr<Backend> one = make_backend(Device{.kind = DeviceKind::kCuda, .index = 0, .count = 1});
  auto& ranks = dynamic_cast<RankBackend&>(*one);
  EXPECT_EQ(&ranks.backend_of_rank(0), one.get());
  const Failure failure = failure_of([&] { (void)ranks.backend_of_rank(1); });
  EXPECT_EQ(failure.code, ExitCode::kUsage);
  EXPECT_EQ(failure.sentence,
            "device cuda:0 has 1 GPU, and rank 1 of a request needs another: name more GPUs, or give cp=1");
}

/// On a machine with several GPUs each is one of its own, and computes.
TEST_F(DeviceOnGpu, IsTheOneOfItsIndex) {
  const int count = static_cast<int>(survey_gpus().gpus.size());
  for (int index = 0; index < count; ++index) {
    const std::unique_ptr<Backend> one = make_backend(gpu(index));
    EXPECT_EQ(device_of(*one), gpu(index));
    EXPECT_EQ(pci_bus_id_of(*one) == pci_bus_id_of(backend()), index == 0);
    const std::unique_ptr<Stream> stream = one->make_stream();
    std::vector<std::byte> sent(std::size_t{9} << 20, std::byte{42}), back(sent.size());
    const Buffer buffer = one->allocate(sent.size(), MemoryCategory::kInputs);
    one->copy_from_host(*stream, buffer.at(), sent.data(), sent.size());
    one->copy_to_host(*stream, back.data(), buffer.at(), back.size());
    stream->synchronize();
    EXPECT_EQ(back, sent) << index;
  }
}

}  // namespace
}  // namespace headroom
