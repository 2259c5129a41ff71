#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/format.hpp"
#include "doctor/checks/families.hpp"
#include "doctor/probes/system_text.hpp"
#include "measure/probes/known_cards.hpp"
#include "measure/probes/nvml_library.hpp"

namespace headroom::doctor {
namespace {

constexpr int kLeastComputeCapability = 80;  // as in backends/cuda/cuda_backend.cpp

std::string name_of_gpu(const GpuFacts& gpu) { return fmt::format("GPU {} ({})", gpu.index, gpu.name); }

std::string holders_of(const MachineFacts& facts, const GpuFacts& gpu) {
  std::vector<std::string> holders;
  for (const GpuProcess& process : gpu.processes) {
    const std::string name = first_line_of(facts.root / "proc" / std::to_string(process.pid) / "comm");
    holders.push_back(fmt::format("process {}{}{}", process.pid, name.empty() ? "" : " (" + name + ")",
                                  process.bytes ? " holds " + format_bytes(*process.bytes) : ""));
  }
  return holders.empty() ? "no process is listed (it may be in another container)"
                         : fmt::format("{}", fmt::join(holders, ", "));
}

}  // namespace

void find_hidden_gpus(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const std::optional<std::string> names = facts.variable("CUDA_VISIBLE_DEVICES");
  const int there = std::max(facts.driver_gpus, static_cast<int>(facts.nvml.gpus.size()));
  if (!names || !facts.wants_gpu || there == 0 || facts.nvml.status != NvmlLibrary::kSuccess ||
      !visible_gpus(facts).empty())
    return;
  if (names->find("MIG-") != std::string::npos) return;  // parts of a GPU, which are not looked at
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = fmt::format("The machine has {} and CUDA_VISIBLE_DEVICES hides {}.", format_count(there, "GPU"),
                               there == 1 ? "it" : "them all"),
       .evidence = {{"CUDA_VISIBLE_DEVICES", fmt::format("'{}'", *names),
                     there == 1 ? "not set, or 0" : fmt::format("not set, or some of 0 to {}", there - 1)}},
       .mend = "unset CUDA_VISIBLE_DEVICES",
       .cost = {.words = "everything runs on the CPU", .factor = {}}});
}

void find_unsupported_gpu(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || !gpu->compute_capability || *gpu->compute_capability >= kLeastComputeCapability) return;
  const std::string there = fmt::format("{}.{}", *gpu->compute_capability / 10, *gpu->compute_capability % 10);
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kWrong,
                      .sentence = fmt::format("{} has compute capability {}, and Headroom needs 8.0 (Ampere).",
                                              name_of_gpu(*gpu), there),
                      .evidence = {{"nvmlDeviceGetCudaComputeCapability", there, "8.0 or newer"}},
                      .mend = "give --device cpu, or choose a newer GPU by CUDA_VISIBLE_DEVICES",
                      .cost = {.words = "everything runs on the CPU", .factor = {}}});
}

void find_busy_gpu(const MachineFacts& facts, std::string_view id, Findings& findings) {
  constexpr unsigned kMost = 5;
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || !gpu->busy_percent || *gpu->busy_percent <= kMost) return;
  const double factor = 1 + *gpu->busy_percent / 100.0;  // two processes that both have work get half of the time each
  findings.push_back(
      {.id = std::string(id),
       .severity = severity_of(factor),
       .sentence = fmt::format("{} works for another process.", name_of_gpu(*gpu)),
       .evidence = {{"nvmlDeviceGetUtilizationRates", fmt::format("{}%", *gpu->busy_percent), "0%"},
                    {"nvmlDeviceGetComputeRunningProcesses_v3", holders_of(facts, *gpu), "none"}},
       .mend = "end that process, or choose another GPU: CUDA_VISIBLE_DEVICES=N (nvidia-smi lists them)",
       .cost = {.words = fmt::format("work on the GPU takes up to {} times as long", format_significant(factor)),
                .factor = factor}});
}

void find_full_gpu(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || !gpu->memory_bytes || !gpu->free_bytes) return;
  const bool is_full = *gpu->free_bytes < *gpu->memory_bytes / 10;
  const bool fits = !facts.model || facts.model->bytes <= *gpu->free_bytes;
  if (!is_full && fits) return;
  if (!is_full && facts.model->bytes > *gpu->memory_bytes) return;  // offloading serves it, whoever else is there
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kWrong,
                      .sentence = fits ? fmt::format("The memory of {} is nearly full.", name_of_gpu(*gpu))
                                       : fmt::format("The model's {} do not fit into the free memory of {}.",
                                                     format_bytes(facts.model->bytes), name_of_gpu(*gpu)),
                      .evidence = {{"nvmlDeviceGetMemoryInfo", format_bytes(*gpu->free_bytes) + " free",
                                    fmt::format("most of {}", format_bytes(*gpu->memory_bytes))},
                                   {"nvmlDeviceGetComputeRunningProcesses_v3", holders_of(facts, *gpu), "none"}},
                      .mend = "end the processes that hold it, or choose another GPU: CUDA_VISIBLE_DEVICES=N",
                      .cost = {.words = "models are offloaded stage by stage, or do not run", .factor = {}}});
}

void find_throttled_gpu(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || !gpu->throttle || (*gpu->throttle & throttle::kHeldDown) == 0) return;
  std::vector<std::string> reasons;
  if ((*gpu->throttle & (0x20 | 0x40)) != 0) reasons.emplace_back("heat");
  if ((*gpu->throttle & 0x80) != 0) reasons.emplace_back("its power supply");
  if (reasons.empty()) reasons.emplace_back("a hardware slowdown");
  const auto& clock = gpu->clock_mhz;
  const std::optional<double> factor = clock.now && clock.most && *clock.now > 0
                                           ? std::optional(static_cast<double>(*clock.most) / *clock.now)
                                           : std::nullopt;
  std::vector<Evidence> evidence = {
      {"nvmlDeviceGetCurrentClocksThrottleReasons", describe_throttle(*gpu->throttle), "0"}};
  if (clock.now && clock.most)
    evidence.push_back(
        {"nvmlDeviceGetClockInfo", fmt::format("{} MHz", *clock.now), fmt::format("up to {} MHz", *clock.most)});
  if (gpu->temperature_c)
    evidence.push_back({"nvmlDeviceGetTemperature", fmt::format("{} C", *gpu->temperature_c), "below 80 C"});
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = fmt::format("The clock of {} is held down by {}.", name_of_gpu(*gpu), fmt::join(reasons, " and ")),
       .evidence = std::move(evidence),
       .mend = "cool it: airflow, fans and dust; check its power cables (nvidia-smi -q -d PERFORMANCE,TEMPERATURE)",
       .cost = {.words = factor ? fmt::format("matmuls take up to {} times as long", format_significant(*factor))
                                : "matmuls are slower",
                .factor = factor}});
}

void find_gpu_clock_setting(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || !gpu->throttle || (*gpu->throttle & throttle::kClockSetting) == 0) return;
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kCould,
                      .sentence = fmt::format("The clock of {} is limited by a setting.", name_of_gpu(*gpu)),
                      .evidence = {{"nvmlDeviceGetCurrentClocksThrottleReasons", describe_throttle(*gpu->throttle),
                                    "without 0x2 (applications clocks)"}},
                      .mend = "sudo nvidia-smi -rgc; sudo nvidia-smi -rac",
                      .cost = {.words = "matmuls run below the GPU's clock", .factor = {}}});
}

void find_gpu_power_limit(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || !gpu->power_limit_w || !gpu->default_power_limit_w || *gpu->power_limit_w <= 0) return;
  const double factor = *gpu->default_power_limit_w / *gpu->power_limit_w;
  if (factor <= 1.01) return;
  findings.push_back({.id = std::string(id),
                      .severity = severity_of(factor),
                      .sentence = fmt::format("The power of {} is limited to {:.0f} W, by default {:.0f} W.",
                                              name_of_gpu(*gpu), *gpu->power_limit_w, *gpu->default_power_limit_w),
                      .evidence = {{"nvmlDeviceGetPowerManagementLimit", fmt::format("{:.0f} W", *gpu->power_limit_w),
                                    fmt::format("{:.0f} W", *gpu->default_power_limit_w)}},
                      .mend = fmt::format("sudo nvidia-smi -i {} -pl {:.0f}", gpu->index, *gpu->default_power_limit_w),
                      .cost = {.words = fmt::format("matmuls take up to {} times as long", format_significant(factor)),
                               .factor = factor}});
}

void find_gpu_without_ecc(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || gpu->ecc != false) return;
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kCould,
                      .sentence = fmt::format("ECC of {} is off.", name_of_gpu(*gpu)),
                      .evidence = {{"nvmlDeviceGetEccMode", "off", "on"}},
                      .mend = fmt::format("sudo nvidia-smi -i {} -e 1, then reboot", gpu->index),
                      .cost = {.words = "no time; errors of its memory change results without a sign", .factor = 1}});
}

void find_gpu_memory_errors(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr || gpu->uncorrected_errors.value_or(0) == 0) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = fmt::format("The memory of {} had errors that could not be corrected.", name_of_gpu(*gpu)),
       .evidence = {{"nvmlDeviceGetTotalEccErrors, since the driver was loaded",
                     std::to_string(*gpu->uncorrected_errors), "0"}},
       .mend = "reset the GPU or reboot; if they come again, have the GPU replaced (nvidia-smi -q -d ECC)",
       .cost = {.words = "results may be wrong", .factor = {}}});
}

void find_narrow_pcie(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (gpu == nullptr) return;
  const NowAndMost &width = gpu->pcie_width, &generation = gpu->pcie_generation;
  if (!width.now || !width.most || *width.now == 0) return;
  // An idle link runs at a lower generation to save power, but keeps its width.
  const bool is_active = gpu->busy_percent.value_or(0) > 0;
  double factor = static_cast<double>(*width.most) / *width.now;
  if (is_active && generation.now && generation.most && *generation.now < *generation.most)
    factor *= static_cast<double>(1U << (*generation.most - *generation.now));  // each generation doubles the rate
  if (factor <= 1) return;
  std::vector<Evidence> evidence = {
      {"nvmlDeviceGetCurrPcieLinkWidth", fmt::format("x{}", *width.now), fmt::format("x{}", *width.most)}};
  if (generation.now && generation.most)
    evidence.push_back({"nvmlDeviceGetCurrPcieLinkGeneration",
                        fmt::format("{}{}", *generation.now, is_active ? "" : ", while idle"),
                        std::to_string(*generation.most)});
  findings.push_back(
      {.id = std::string(id),
       .severity = severity_of(factor),
       .sentence = fmt::format("The PCIe link of {} has {} of {} lanes.", name_of_gpu(*gpu), *width.now, *width.most),
       .evidence = std::move(evidence),
       .mend =
           fmt::format("put the GPU into a slot with {} lanes of the CPU's own, seat it again, or drop the riser cable",
                       *width.most),
       .cost = {
           .words = fmt::format("loading and offloading of weights take {} times as long", format_significant(factor)),
           .factor = factor}});
}

void find_blocking_launches(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const std::optional<std::string> value = facts.variable("CUDA_LAUNCH_BLOCKING");
  if (!facts.wants_gpu || !value || *value == "0" || value->empty()) return;
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kWrong,
                      .sentence = "Every launch waits until its kernel has ended.",
                      .evidence = {{"CUDA_LAUNCH_BLOCKING", *value, "not set"}},
                      .mend = "unset CUDA_LAUNCH_BLOCKING",
                      .cost = {.words = "the GPU is idle between launches", .factor = {}}});
}

void find_slow_gpu_copies(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (!facts.measured || !facts.measured->is_gpu || gpu == nullptr || !gpu->memory_clock_mhz.most ||
      !gpu->memory_bus_bits)
    return;
  constexpr double kReachable = 0.85;  // an H200 copies at 87% of the bus' rate (docs/gpu_facts.md)
  const double bus = 2e6 * *gpu->memory_clock_mhz.most * *gpu->memory_bus_bits / 8;
  const double factor = kReachable * bus / std::max(1.0, facts.measured->copy_bytes_per_s);
  if (factor <= 1.2) return;  // cards differ in what they reach
  findings.push_back(
      {.id = std::string(id),
       .severity = severity_of(factor),
       .sentence = fmt::format("{} copies slower than its memory allows.", name_of_gpu(*gpu)),
       .evidence = {{"a measured copy", format_significant(facts.measured->copy_bytes_per_s / 1e9) + " GB/s",
                     fmt::format("about {} GB/s, 85% of {} bits at {} MHz", format_significant(kReachable * bus / 1e9),
                                 *gpu->memory_bus_bits, *gpu->memory_clock_mhz.most)}},
       .mend = "look at what else runs on it and at its memory clock: nvidia-smi -q -d CLOCK,UTILIZATION",
       .cost = {.words = fmt::format("work that moves bytes takes {} times as long", format_significant(factor)),
                .factor = factor}});
}

void find_slow_gpu_products(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const GpuFacts* const gpu = used_gpu(facts);
  if (!facts.measured || !facts.measured->is_gpu || gpu == nullptr || facts.measured->product_flops_per_s <= 0) return;
  const KnownCard* const card = card_of(gpu->name);
  if (card == nullptr) return;
  const double reachable = kReachedOfFlops * card->flops(facts.measured->product_arithmetic);
  const double factor = reachable / facts.measured->product_flops_per_s;
  if (factor <= 1.4) return;  // cards differ in what they reach under their power limits
  findings.push_back(
      {.id = std::string(id),
       .severity = severity_of(factor),
       .sentence = fmt::format("{} multiplies slower than others of its kind.", name_of_gpu(*gpu)),
       .evidence = {{"measured matmuls in " + facts.measured->product_arithmetic,
                     format_significant(facts.measured->product_flops_per_s / 1e12) + " TFLOP/s",
                     fmt::format("about {} TFLOP/s, {:.0f}% of the peak in {}", format_significant(reachable / 1e12),
                                 100 * kReachedOfFlops, card->source)}},
       .mend = "look at what else runs on it, at its clock and its power: nvidia-smi -q -d CLOCK,POWER,PERFORMANCE",
       .cost = {.words = fmt::format("matmuls take {} times as long", format_significant(factor)), .factor = factor}});
}

}  // namespace headroom::doctor
