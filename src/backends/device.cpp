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
  const std::string first = fmt::format("{}:{}", name_of(device.kind), device.index);
  return device.count < 2 ? first : fmt::format("{}-{}", first, device.index + device.count - 1);
}

DeviceRequest parse_device(std::string_view text) {
  constexpr std::string_view kIndexed = "cuda:";
  if (text == "auto") return {};
  if (text == "cpu") return {.kind = DeviceKind::kCpu};
  if (text == "cuda") return {.kind = DeviceKind::kCuda};
  const auto number = [](std::string_view digits) {
    int value = -1;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value);
    return error != std::errc{} || end != last ? -1 : value;
  };
  int first = -1, last = -1;
  if (text.starts_with(kIndexed)) {
    const std::string_view range = text.substr(kIndexed.size());
    const std::size_t dash = range.find('-', 1);
    first = number(range.substr(0, dash));
    last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (dash != std::string_view::npos && last >= first && first >= 0)
      return {.kind = DeviceKind::kCuda, .index = first, .count = last - first + 1};
  }
  if (first < 0 || last != first)
    fail_usage("device '{}': expected auto, cpu, cuda, cuda:N for the GPU of that number, or cuda:N-M", text);
  return {.kind = DeviceKind::kCuda, .index = first};
}

Device choose_device(const DeviceRequest& request, const GpuSurvey& survey) {
  if (request.kind == DeviceKind::kCpu) return {};
  if (!request.kind) {
    const auto usable = std::ranges::find_if(survey.gpus, [](const auto& gpu) { return gpu.obstacle.empty(); });
    if (usable == survey.gpus.end()) return {};
    return {.kind = DeviceKind::kCuda, .index = static_cast<int>(usable - survey.gpus.begin())};
  }
  const Device asked{.kind = DeviceKind::kCuda, .index = request.index, .count = request.count};
  if (survey.gpus.empty()) fail("device {} was asked for, but {}", name_of(*request.kind), survey.obstacle);
  for (int index = asked.index; index < asked.index + std::max(1, asked.count); ++index) {
    if (static_cast<std::size_t>(index) >= survey.gpus.size())
      fail_usage("device {} was asked for, but {}", name_of(asked), list_gpus(survey));
    const GpuSurvey::Gpu& gpu = survey.gpus[static_cast<std::size_t>(index)];
    if (!gpu.obstacle.empty()) {
      const Device obstructed{.kind = DeviceKind::kCuda, .index = index};
      fail("device {} was asked for, but {}", name_of(obstructed), gpu.obstacle);
    }
  }
  return asked;
}

Device find_device(std::string_view text) {
  const DeviceRequest request = parse_device(text);
  return choose_device(request, request.kind == DeviceKind::kCpu ? GpuSurvey{} : survey_gpus());
}

Device device_of(const Backend& backend) {
  const GpuIdentity gpu = gpu_of(backend).value_or(GpuIdentity{});
  return {.kind = backend.properties().target.device, .index = gpu.index, .count = gpu.count};
}

std::string pci_bus_id_of(const Backend& backend) { return gpu_of(backend).value_or(GpuIdentity{}).pci_bus_id; }

std::unique_ptr<Backend> make_backend(const Device& device, int threads) {
  if (device.kind == DeviceKind::kCpu) return make_cpu_backend(threads);
  HR_CHECK(device.kind == DeviceKind::kCuda);
  return make_cuda_backend(device.index, device.count);
}

std::unique_ptr<Backend> make_backend(DeviceKind device, int threads) { return make_backend(Device{device}, threads); }

}  // namespace headroom
