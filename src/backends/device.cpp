#include "backends/device.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/cuda/cuda_backend.hpp"
#include "base/error.hpp"

namespace headroom {
namespace {

/// "there is 1 GPU, cuda:0", "there are 2 GPUs, cuda:0 and cuda:1"
std::string list_gpus(const GpuSurvey& survey) {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(survey.gpus.size()); ++i)
    names.push_back(name_of(Device{.kind = DeviceKind::kCuda, .index = i}));
  if (names.size() == 1) return fmt::format("there is 1 GPU, {}", names.front());
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("there are {} GPUs, {} and {}", survey.gpus.size(), fmt::join(names, ", "), last);
}

}  // namespace

std::string name_of(const Device& device) {
  if (device.kind != DeviceKind::kCuda) return std::string(name_of(device.kind));
  return fmt::format("{}:{}", name_of(device.kind), device.index);
}

DeviceRequest parse_device(std::string_view text) {
  constexpr std::string_view kIndexed = "cuda:";
  if (text == "auto") return {};
  if (text == "cpu") return {.kind = DeviceKind::kCpu};
  if (text == "cuda") return {.kind = DeviceKind::kCuda};
  int index = -1;
  if (text.starts_with(kIndexed)) {
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + kIndexed.size(), last, index);
    if (error != std::errc{} || end != last) index = -1;
  }
  if (index < 0) fail_usage("device '{}': expected auto, cpu, cuda, or cuda:N for the GPU of that number", text);
  return {.kind = DeviceKind::kCuda, .index = index};
}

Device choose_device(const DeviceRequest& request, const GpuSurvey& survey) {
  if (request.kind == DeviceKind::kCpu) return {};
  if (!request.kind) {
    const auto usable = std::ranges::find_if(survey.gpus, [](const auto& gpu) { return gpu.obstacle.empty(); });
    if (usable == survey.gpus.end()) return {};
    return {.kind = DeviceKind::kCuda, .index = static_cast<int>(usable - survey.gpus.begin())};
  }
  const Device asked{.kind = DeviceKind::kCuda, .index = request.index};
  if (survey.gpus.empty()) fail("device {} was asked for, but {}", name_of(*request.kind), survey.obstacle);
  if (static_cast<std::size_t>(asked.index) >= survey.gpus.size())
    fail_usage("device {} was asked for, but {}", name_of(asked), list_gpus(survey));
  const GpuSurvey::Gpu& gpu = survey.gpus[static_cast<std::size_t>(asked.index)];
  if (!gpu.obstacle.empty()) fail("device {} was asked for, but {}", name_of(asked), gpu.obstacle);
  return asked;
}

Device find_device(std::string_view text) {
  const DeviceRequest request = parse_device(text);
  return choose_device(request, request.kind == DeviceKind::kCpu ? GpuSurvey{} : survey_gpus());
}

Device device_of(const Backend& backend) {
  return {.kind = backend.properties().target.device, .index = gpu_of(backend).value_or(GpuIdentity{}).index};
}

std::string pci_bus_id_of(const Backend& backend) { return gpu_of(backend).value_or(GpuIdentity{}).pci_bus_id; }

std::unique_ptr<Backend> make_backend(const Device& device, int threads) {
  if (device.kind == DeviceKind::kCpu) return make_cpu_backend(threads);
  HR_CHECK(device.kind == DeviceKind::kCuda);
  return make_cuda_backend(device.index);
}

std::unique_ptr<Backend> make_backend(DeviceKind device, int threads) { return make_backend(Device{device}, threads); }

}  // namespace headroom
