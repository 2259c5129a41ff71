#include "measure/probes/conditions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "measure/statistics/statistics.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

// From nvml.h, whose values are stable: NVML_CLOCK_SM, NVML_CLOCK_MEM.
constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;

/// The CPUs that this process may run on.
std::vector<int> allowed_cpu_numbers() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

template <typename T>
void append_column(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

template <typename T>
std::size_t count_positive(const std::vector<T>& column) {
  return static_cast<std::size_t>(std::ranges::count_if(column, [](T value) { return value > 0; }));
}

}  // namespace

std::unique_ptr<Nvml> Nvml::open(const std::string& pci_bus_id, const std::string& library) {
  std::unique_ptr<Nvml> nvml(new Nvml(library));
  if (!nvml->library_.is_open()) return nullptr;
  const bool found = nvml->library_.call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &nvml->device_);
  return found ? std::move(nvml) : nullptr;
}

GpuState Nvml::state() const {
  GpuState state;
  unsigned value = 0;
  if (library_.call("nvmlDeviceGetClockInfo", device_, kSmClock, &value)) state.clock_mhz = value;
  if (library_.call("nvmlDeviceGetClockInfo", device_, kMemoryClock, &value)) state.memory_clock_mhz = value;
  if (library_.call("nvmlDeviceGetPowerUsage", device_, &value)) state.power_w = value / 1000.0;
  unsigned long long reasons = 0;
  if (library_.call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &reasons))
    state.throttle = static_cast<std::int64_t>(reasons & ~throttle::kIdle);
  return state;
}

void Conditions::append(const Conditions& other) {
  append_column(cpu_mhz, other.cpu_mhz);
  append_column(steal_ms, other.steal_ms);
  append_column(preemptions, other.preemptions);
  append_column(waited_ms, other.waited_ms);
  append_column(gpu_clock_mhz, other.gpu_clock_mhz);
  append_column(gpu_memory_clock_mhz, other.gpu_memory_clock_mhz);
  append_column(gpu_power_w, other.gpu_power_w);
  append_column(gpu_throttle, other.gpu_throttle);
}

void Conditions::keep_whole(std::size_t trials) {
  const auto keep = [trials](auto& column) {
    if (column.size() != trials) column.clear();
  };
  keep(cpu_mhz);
  keep(steal_ms);
  keep(preemptions);
  keep(waited_ms);
  keep(gpu_clock_mhz);
  keep(gpu_memory_clock_mhz);
  keep(gpu_power_w);
  keep(gpu_throttle);
}

Conditions Conditions::part(std::size_t first, std::size_t count) const {
  Conditions part = *this;
  const auto cut = [&](auto& column) {
    if (column.empty()) return;
    column.erase(column.begin(), column.begin() + static_cast<std::ptrdiff_t>(first));
    column.resize(count);
  };
  cut(part.cpu_mhz);
  cut(part.steal_ms);
  cut(part.preemptions);
  cut(part.waited_ms);
  cut(part.gpu_clock_mhz);
  cut(part.gpu_memory_clock_mhz);
  cut(part.gpu_power_w);
  cut(part.gpu_throttle);
  return part;
}

std::string describe_disturbance(const Conditions& conditions) {
  std::vector<std::string> clauses;
  if (const std::size_t n = count_positive(conditions.preemptions); n > 0)
    clauses.push_back(fmt::format("{} of {} trials were preempted", n, conditions.preemptions.size()));
  if (const double stolen = std::accumulate(conditions.steal_ms.begin(), conditions.steal_ms.end(), 0.0); stolen > 0)
    clauses.push_back(fmt::format("{} of CPU time were stolen by other machines", format_ms(stolen)));
  if (const std::size_t n = count_positive(conditions.gpu_throttle); n > 0)
    clauses.push_back(
        fmt::format("the GPU's clock was held down in {} of {} trials", n, conditions.gpu_throttle.size()));
  return fmt::format("{}", fmt::join(clauses, "; "));
}

std::string find_disturbance(const Conditions& conditions, std::span<const double> wall_ms, std::string_view trial) {
  constexpr double kMostTaken = 0.05;
  constexpr double kMostPreemptions = 50;  // per second; a quiet machine has 5, one more process per CPU causes 100
  constexpr double kLeastStolenMs = 50;    // five ticks of the clock that measures it
  if (wall_ms.empty()) return {};
  const double all_ms = std::accumulate(wall_ms.begin(), wall_ms.end(), 0.0);
  if (!conditions.waited_ms.empty()) {
    std::vector<double> shares;
    for (std::size_t i = 0; i < wall_ms.size(); ++i)
      shares.push_back(conditions.waited_ms.at(i) / std::max(wall_ms[i], 1e-6));
    const double share = median(shares);
    if (share > 1)  // of all threads together, and of all that was observed with a trial
      return fmt::format("other work held the CPUs: threads waited for one longer than a typical {} takes", trial);
    if (share > kMostTaken)
      return fmt::format("other work held the CPUs: threads waited for one for {:.0f}% of a typical {}'s time",
                         100 * share, trial);
  } else if (!conditions.preemptions.empty()) {
    const double number = std::accumulate(conditions.preemptions.begin(), conditions.preemptions.end(), 0.0);
    if (const double rate = 1000 * number / all_ms; rate > kMostPreemptions)
      return fmt::format("other work held the CPUs: threads were preempted {:.0f} times a second", rate);
  }
  const double stolen_ms = std::accumulate(conditions.steal_ms.begin(), conditions.steal_ms.end(), 0.0);
  if (stolen_ms > kLeastStolenMs && stolen_ms > kMostTaken * all_ms)
    return fmt::format("other machines on the same hardware took {:.0f}% of the CPUs' time", 100 * stolen_ms / all_ms);
  const auto held = std::ranges::count_if(conditions.gpu_throttle, [](std::int64_t reasons) {
    return (static_cast<unsigned long long>(reasons) & throttle::kHeldDown) != 0;
  });
  if (2 * static_cast<std::size_t>(held) > conditions.gpu_throttle.size())
    return fmt::format("the GPU's clock was held down for heat or by its power supply in {} of {} {}s", held,
                       conditions.gpu_throttle.size(), trial);
  return {};
}

ConditionsProbe::ConditionsProbe(const std::string& pci_bus_id, fs::path root) : root_(std::move(root)) {
  for (const int cpu : allowed_cpu_numbers()) {
    cpus_.push_back(fmt::format("cpu{}", cpu));
    const fs::path file = root_ / "sys/devices/system/cpu" / cpus_.back() / "cpufreq/scaling_cur_freq";
    if (fs::exists(file)) frequency_files_.push_back(file);
  }
  if (!pci_bus_id.empty()) gpu_ = Nvml::open(pci_bus_id);
  begin();
}

void ConditionsProbe::begin() { before_ = read_counters(); }

void ConditionsProbe::add_trial() {
  const Counters before = std::exchange(before_, read_counters());
  ++trials_;
  conditions_.preemptions.push_back(before_.preemptions - before.preemptions);
  const auto add_growth = [](std::vector<double>& column, std::optional<double> from, std::optional<double> to) {
    if (from && to) column.push_back(std::max(0.0, *to - *from));
  };
  add_growth(conditions_.steal_ms, before.steal_ms, before_.steal_ms);
  add_growth(conditions_.waited_ms, before.waited_ms, before_.waited_ms);
  if (const std::optional<double> mhz = read_cpu_mhz()) conditions_.cpu_mhz.push_back(*mhz);
  if (!gpu_) return;
  const GpuState gpu = gpu_->state();
  if (gpu.clock_mhz) conditions_.gpu_clock_mhz.push_back(*gpu.clock_mhz);
  if (gpu.memory_clock_mhz) conditions_.gpu_memory_clock_mhz.push_back(*gpu.memory_clock_mhz);
  if (gpu.power_w) conditions_.gpu_power_w.push_back(*gpu.power_w);
  if (gpu.throttle) conditions_.gpu_throttle.push_back(*gpu.throttle);
}

Conditions ConditionsProbe::take() {
  conditions_.keep_whole(std::exchange(trials_, 0));
  return std::exchange(conditions_, {});
}

ConditionsProbe::Counters ConditionsProbe::read_counters() const {
  Counters counters;
  counters.steal_ms = read_steal_ms();
  counters.waited_ms = read_waited_ms();
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) counters.preemptions = usage.ru_nivcsw;
  return counters;
}

/// The eighth value of a CPU's line in /proc/stat is steal, in ticks (proc(5)).
std::optional<double> ConditionsProbe::read_steal_ms() const {
  std::ifstream file(root_ / "proc/stat");
  double sum = 0;
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string label;
    std::array<double, 8> ticks{};
    fields >> label;
    if (std::ranges::find(cpus_, label) == cpus_.end()) continue;
    for (double& one : ticks) fields >> one;
    if (!fields) return std::nullopt;
    sum += ticks[7] * 1000 / static_cast<double>(sysconf(_SC_CLK_TCK));
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

/// Sum over all threads of the second value in their schedstat, in nanoseconds (Documentation/scheduler/sched-stats).
/// The times of ended threads are lost.
std::optional<double> ConditionsProbe::read_waited_ms() const {
  std::error_code error;
  std::optional<double> sum_ms;
  for (const fs::directory_entry& thread : fs::directory_iterator(root_ / "proc/self/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    double ran_ns = 0, waited_ns = 0;
    if (file >> ran_ns >> waited_ns) sum_ms = sum_ms.value_or(0) + waited_ns / 1e6;
  }
  return sum_ms;
}

std::optional<double> ConditionsProbe::read_cpu_mhz() const {
  double sum = 0;
  for (const fs::path& path : frequency_files_) {
    std::ifstream file(path);
    double khz = 0;
    if (!(file >> khz)) return std::nullopt;
    sum += khz / 1000;
  }
  if (frequency_files_.empty()) return std::nullopt;
  return sum / static_cast<double>(frequency_files_.size());
}

}  // namespace headroom
