#include "doctor/probes/nvml_survey.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "doctor/probes/library_survey.hpp"
#include "measure/probes/nvml_library.hpp"

namespace headroom::doctor {
namespace {

constexpr std::chrono::milliseconds kUtilizationPeriod(1100);

// Structures of nvml.h, whose layouts belong to the versions in the functions' names.
struct PciInfo {
  std::array<char, 16> legacy_bus_id{};
  std::array<unsigned, 5> numbers{};
  std::array<char, 32> bus_id{};
};
struct Memory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
struct Utilization {
  unsigned gpu = 0, memory = 0;
};
constexpr int kSmClock = 1, kMemoryClock = 2;           // NVML_CLOCK_SM, NVML_CLOCK_MEM
constexpr int kUncorrected = 1, kSinceDriverBegan = 0;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
constexpr unsigned kMostLinks = 18;                     // NVML_NVLINK_MAX_LINKS
constexpr int kEnabled = 1;                             // NVML_FEATURE_ENABLED
constexpr unsigned long long kNotAvailable = ~0ULL;     // NVML_VALUE_NOT_AVAILABLE

using Handle = void*;

class GpuReader {
 public:
  GpuReader(const NvmlLibrary& nvml, Handle gpu) : nvml_(nvml), gpu_(gpu) {}

  [[nodiscard]] std::string text(const char* function) const {
    std::array<char, 96> value{};
    return nvml_.call(function, gpu_, value.data(), static_cast<unsigned>(value.size() - 1)) ? value.data() : "";
  }
  template <typename Value = unsigned, typename... Arguments>
  [[nodiscard]] std::optional<Value> value(const char* function, Arguments... arguments) const {
    Value value{};
    return nvml_.call(function, gpu_, arguments..., &value) ? std::optional(value) : std::nullopt;
  }
  [[nodiscard]] std::optional<double> watts(const char* function) const {
    const std::optional<unsigned> milliwatts = value(function);
    return milliwatts ? std::optional(*milliwatts / 1000.0) : std::nullopt;
  }
  /// In percent, of the last second or less.
  [[nodiscard]] std::optional<unsigned> utilization() const {
    const std::optional<Utilization> rates = value<Utilization>("nvmlDeviceGetUtilizationRates");
    return rates ? std::optional(rates->gpu) : std::nullopt;
  }
  [[nodiscard]] std::vector<GpuProcess> processes() const {
    std::array<ProcessInfo, 64> infos{};
    auto count = static_cast<unsigned>(infos.size());
    if (!nvml_.call("nvmlDeviceGetComputeRunningProcesses_v3", gpu_, &count, infos.data())) return {};
    std::vector<GpuProcess> all;
    for (unsigned i = 0; i < count && i < infos.size(); ++i) {
      const bool is_known = infos[i].bytes != kNotAvailable;
      all.push_back({.pid = infos[i].pid, .bytes = is_known ? std::optional(infos[i].bytes) : std::nullopt});
    }
    return all;
  }
  [[nodiscard]] std::optional<int> compute_capability() const {
    int major = 0, minor = 0;
    const bool is_known = nvml_.call("nvmlDeviceGetCudaComputeCapability", gpu_, &major, &minor);
    return is_known ? std::optional(10 * major + minor) : std::nullopt;
  }
  /// The current value of a mode that may be pending.
  template <typename Mode>
  [[nodiscard]] std::optional<bool> mode(const char* function) const {
    Mode now{}, pending{};
    return nvml_.call(function, gpu_, &now, &pending) ? std::optional(now == Mode{kEnabled}) : std::nullopt;
  }
  [[nodiscard]] int nvlinks() const {
    int active = 0;
    for (unsigned link = 0; link < kMostLinks; ++link)
      if (value<int>("nvmlDeviceGetNvLinkState", link) == kEnabled) ++active;
    return active;
  }

 private:
  const NvmlLibrary& nvml_;
  Handle gpu_;
};

GpuFacts read_gpu(const GpuReader& gpu, int index) {
  GpuFacts facts;
  facts.index = index;
  facts.name = gpu.text("nvmlDeviceGetName");
  facts.uuid = gpu.text("nvmlDeviceGetUUID");
  if (const auto pci = gpu.value<PciInfo>("nvmlDeviceGetPciInfo_v3")) facts.pci_bus_id = pci->bus_id.data();
  facts.compute_capability = gpu.compute_capability();
  if (const auto memory = gpu.value<Memory>("nvmlDeviceGetMemoryInfo")) {
    facts.memory_bytes = memory->total;
    facts.free_bytes = memory->free;
  }
  facts.processes = gpu.processes();
  facts.busy_percent = gpu.utilization();
  facts.power_w = gpu.watts("nvmlDeviceGetPowerUsage");
  facts.power_limit_w = gpu.watts("nvmlDeviceGetPowerManagementLimit");
  facts.default_power_limit_w = gpu.watts("nvmlDeviceGetPowerManagementDefaultLimit");
  facts.clock_mhz = {gpu.value("nvmlDeviceGetClockInfo", kSmClock), gpu.value("nvmlDeviceGetMaxClockInfo", kSmClock)};
  facts.memory_clock_mhz = {gpu.value("nvmlDeviceGetClockInfo", kMemoryClock),
                            gpu.value("nvmlDeviceGetMaxClockInfo", kMemoryClock)};
  facts.pcie_generation = {gpu.value("nvmlDeviceGetCurrPcieLinkGeneration"),
                           gpu.value("nvmlDeviceGetMaxPcieLinkGeneration")};
  facts.pcie_width = {gpu.value("nvmlDeviceGetCurrPcieLinkWidth"), gpu.value("nvmlDeviceGetMaxPcieLinkWidth")};
  facts.memory_bus_bits = gpu.value("nvmlDeviceGetMemoryBusWidth");
  if (const auto reasons = gpu.value<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons"))
    facts.throttle = *reasons & ~throttle::kIdle;
  facts.temperature_c = gpu.value("nvmlDeviceGetTemperature", 0);
  facts.ecc = gpu.mode<int>("nvmlDeviceGetEccMode");
  facts.uncorrected_errors =
      gpu.value<unsigned long long>("nvmlDeviceGetTotalEccErrors", kUncorrected, kSinceDriverBegan);
  facts.mig = gpu.mode<unsigned>("nvmlDeviceGetMigMode");
  facts.nvlinks = gpu.nvlinks();
  return facts;
}

}  // namespace

NvmlSurvey survey_nvml(const std::string& library) {
  const NvmlLibrary nvml(library);
  NvmlSurvey survey;
  survey.library = library;
  survey.is_found = nvml.is_found();
  survey.status = nvml.status();
  survey.path = path_of_loaded(library);
  if (!nvml.is_open()) return survey;
  std::array<char, 96> text{};
  const auto size = static_cast<unsigned>(text.size() - 1);
  if (nvml.call("nvmlSystemGetNVMLVersion", text.data(), size)) survey.version = text.data();
  if (nvml.call("nvmlSystemGetDriverVersion", text.data(), size)) survey.driver = text.data();
  (void)nvml.call("nvmlSystemGetCudaDriverVersion_v2", &survey.cuda_version);
  unsigned count = 0;
  (void)nvml.call("nvmlDeviceGetCount_v2", &count);
  std::vector<std::pair<GpuReader, std::size_t>> busy;
  for (unsigned i = 0; i < count; ++i) {
    Handle gpu = nullptr;
    if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &gpu)) continue;
    const GpuReader reader(nvml, gpu);
    survey.gpus.push_back(read_gpu(reader, static_cast<int>(i)));
    if (survey.gpus.back().busy_percent.value_or(0) > 0) busy.emplace_back(reader, survey.gpus.size() - 1);
  }
  // The rate is that of up to the last second, in which a process may have ended.
  if (!busy.empty()) std::this_thread::sleep_for(kUtilizationPeriod);
  for (const auto& [reader, at] : busy) {
    std::optional<unsigned>& percent = survey.gpus[at].busy_percent;
    if (const auto later = reader.utilization()) percent = std::min(*percent, *later);
  }
  return survey;
}

std::string describe_throttle(unsigned long long reasons) {
  if (reasons == 0) return "none";
  constexpr std::array<std::string_view, 9> kNames = {"idle",
                                                      "applications clocks setting",
                                                      "software power cap",
                                                      "hardware slowdown",
                                                      "sync boost",
                                                      "software thermal slowdown",
                                                      "hardware thermal slowdown",
                                                      "hardware power brake",
                                                      "display clocks setting"};
  std::vector<std::string_view> names;
  for (std::size_t bit = 0; bit < kNames.size(); ++bit)
    if ((reasons >> bit & 1) != 0) names.push_back(kNames[bit]);
  return fmt::format("{} ({:#x})", names.empty() ? "unknown" : fmt::format("{}", fmt::join(names, ", ")), reasons);
}

}  // namespace headroom::doctor
