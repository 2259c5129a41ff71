#include "measure/probes/hardware.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace headroom {
namespace {

Machine plain_machine() {
  Machine machine;
  machine.cpu = "Xeon";
  machine.cpu_isa = "amx";
  machine.logical_cores = 16;
  machine.allowed_cores = 2;
  machine.memory_bytes = 135'148'564'480;
  return machine;
}

Configuration configuration(const std::string& device) {
  return {.device = device, .asked = {}, .applied = {}, .declined = {}, .threads = 2, .baseline_dtype = {}};
}

std::string changed(const std::function<void(Machine&)>& change) {
  Machine other = plain_machine();
  change(other);
  return describe_hardware(other, configuration("cpu"));
}

TEST(DescribeHardware, OfACpuTellsWhatTimesDependOn) {
  const std::string text = describe_hardware(plain_machine(), configuration("cpu"));
  EXPECT_EQ(text, "Xeon (amx), 2 of 16 cores, 126 GiB, 2 threads");
  EXPECT_EQ(changed([](Machine& m) { m.allowed_cores = 16; }), "Xeon (amx), 16 cores, 126 GiB, 2 threads");
  EXPECT_EQ(changed([](Machine& m) { m.cpu_isa.reset(); }), "Xeon, 2 of 16 cores, 126 GiB, 2 threads");
  EXPECT_NE(changed([](Machine& m) { m.cpu = "EPYC"; }), text);
  EXPECT_NE(changed([](Machine& m) { m.memory_bytes /= 2; }), text);
  EXPECT_EQ(changed([](Machine& m) { m.memory_bytes -= 40'000'000; }), text) << "another kernel of the same machine";
  EXPECT_EQ(changed([](Machine& m) { m.os = "another"; }), text);
  Configuration four = configuration("cpu");
  four.threads = 4;
  EXPECT_NE(describe_hardware(plain_machine(), four), text);
}

TEST(DescribeHardware, OfAGpuIsTheGpuAndItsDriver) {
  Machine with_gpu = plain_machine();
  with_gpu.gpus = {{.name = "NVIDIA H200", .driver = "580.159"}};
  EXPECT_EQ(describe_hardware(with_gpu, configuration("cuda")), "NVIDIA H200, driver 580.159");
  EXPECT_EQ(describe_hardware(with_gpu, configuration("cpu")),
            describe_hardware(plain_machine(), configuration("cpu")));
  with_gpu.gpus.push_back({.name = "NVIDIA L4", .driver = "580.159"});
  Configuration second = configuration("cuda");
  second.gpu = {.name = "NVIDIA L4", .index = 1, .uuid = "GPU-1"};
  EXPECT_EQ(describe_hardware(with_gpu, second), "NVIDIA L4, driver 580.159");
  EXPECT_EQ(describe_hardware(plain_machine(), configuration("cuda")), "unknown GPU, 2 threads");
  with_gpu.gpus.clear();  // a system that hides the driver's list
  EXPECT_EQ(describe_hardware(with_gpu, second), "NVIDIA L4");
}

}  // namespace
}  // namespace headroom
