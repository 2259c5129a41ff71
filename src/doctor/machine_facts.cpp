#include "doctor/machine_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <utility>

#include "backends/cpu/cpu_info.hpp"
#include "backends/cuda/sonames.hpp"
#include "base/text/format.hpp"
#include "doctor/probes/cpu_facts.hpp"
#include "doctor/probes/system_text.hpp"
#include "kernels/core/simd_targets.hpp"
#include "kernels/vendor/cudnn/installed.hpp"
#include "measure/probes/known_cards.hpp"
#include "measure/probes/machine.hpp"

namespace headroom::doctor {
namespace {

std::vector<LibraryNeed> needs_of(const GpuSonames& names) {
  const std::string cuda = fmt::format("cu{}", names.cuda_major);
  return {{.name = "cuBLASLt",
           .soname = names.cublaslt,
           .version_function = "cublasLtGetVersion",
           .used_for = "every matmul on a GPU",
           .package = "nvidia-cublas"},
          {.name = "cuDNN",
           .soname = names.cudnn,
           .version_function = "cudnnGetVersion",
           .least = static_cast<PackedVersion>(cudnn::kLeastVersionOfAttention),
           .used_for = "attention and convolutions on a GPU",
           .package = "nvidia-cudnn-" + cuda},
          {.name = "NVRTC",
           .soname = names.nvrtc,
           .version_function = "nvrtcVersion",
           .form = VersionForm::kMajorAndMinor,
           .used_for = "fused kernels, which are generated for each model",
           .package = "nvidia-cuda-nvrtc"},
          {.name = "CUPTI",
           .soname = names.cupti,
           .version_function = "cuptiGetVersion",
           .form = VersionForm::kStored,
           .used_for = "`headroom profile` on a GPU",
           .is_essential = false,
           .package = "nvidia-cuda-cupti"}};
}

std::string describe_version(const LibraryCopy& copy) {
  return copy.version ? version_text(*copy.version) : "of an unknown version";
}

class Lines {
 public:
  explicit Lines(std::vector<Fact>& facts) : facts_(facts) {}
  void family(std::string_view name) { family_ = name; }
  void add(std::string name, std::string value) {
    if (!value.empty()) facts_.push_back({family_, std::move(name), std::move(value)});
  }

 private:
  std::vector<Fact>& facts_;
  std::string_view family_;
};

std::string of_most(const NowAndMost& value, std::string_view unit) {
  if (!value.now) return {};
  return value.most ? fmt::format("{} of {}{}", *value.now, *value.most, unit) : fmt::format("{}{}", *value.now, unit);
}

void describe_cpu(const MachineFacts& facts, Lines& lines) {
  const CpuFacts& cpu = facts.cpu;
  lines.add("model", cpu.name);
  lines.add("vector units", fmt::format("{} used, {} there{}", name_of(cpu.isa_used), name_of(cpu.isa_there),
                                        cpu.vector_unit.empty() ? "" : ", kernels by " + cpu.vector_unit));
  lines.add("CPUs", fmt::format("{} of {} allowed ({})", cpu.allowed, cpu.online, cpu.allowed_list));
  if (cpu.quota)
    lines.add("quota", fmt::format("{} CPUs ({})", format_significant(cpu.quota->cpus), cpu.quota->source));
  if (cpu.smt) lines.add("SMT", *cpu.smt ? "on" : "off");
  if (cpu.nodes.size() > 1)
    lines.add("NUMA", fmt::format("{} nodes, CPUs of {}, memory of {}", cpu.nodes.size(),
                                  fmt::join(cpu.nodes_of_allowed, ","), cpu.memory_nodes));
  if (!cpu.governor.empty())
    lines.add("clock", fmt::format("governor {} of {}{}", cpu.governor, cpu.driver,
                                   cpu.max_mhz ? fmt::format(", at most {:.0f} MHz", *cpu.max_mhz) : ""));
  if (cpu.steal_share) lines.add("steal", fmt::format("{:.1f}% since the system began", 100 * *cpu.steal_share));
  if (cpu.load) lines.add("load", format_significant(*cpu.load));
  for (const auto& [name, value] : facts.environment)
    if (name.starts_with("OMP_") || name.starts_with("GOMP_") || name.starts_with("KMP_") ||
        name.starts_with("ONEDNN_") || name.starts_with("DNNL_"))
      lines.add(name, value);
}

void describe_memory(const MemoryFacts& memory, Lines& lines) {
  lines.add("installed", format_bytes(memory.installed_bytes));
  lines.add("available", format_bytes(memory.available_bytes));
  for (const MemoryLimit& limit : memory.limits)
    lines.add("limit", fmt::format("{} by {} ({})", format_bytes(limit.bytes), limit.name, limit.source));
  lines.add("huge pages", memory.huge_pages);
  if (memory.swap_used_bytes > 0) lines.add("swap in use", format_bytes(memory.swap_used_bytes));
  if (memory.shm_bytes) lines.add("/dev/shm", format_bytes(*memory.shm_bytes));
}

void describe_gpu(const GpuFacts& gpu, Lines& lines) {
  const std::string name = fmt::format("GPU {}", gpu.index);
  const auto capability = [&] {
    return gpu.compute_capability
               ? fmt::format(", compute capability {}.{}", *gpu.compute_capability / 10, *gpu.compute_capability % 10)
               : "";
  };
  lines.add(name, fmt::format("{} at {}{}", gpu.name, gpu.pci_bus_id, capability()));
  if (gpu.memory_bytes && gpu.free_bytes)
    lines.add(name + " memory",
              fmt::format("{} of {} free", format_bytes(*gpu.free_bytes), format_bytes(*gpu.memory_bytes)));
  for (const GpuProcess& process : gpu.processes)
    lines.add(name + " process", fmt::format("{} holds {}", process.pid,
                                             process.bytes ? format_bytes(*process.bytes) : "an unknown amount"));
  if (gpu.power_limit_w && gpu.default_power_limit_w)
    lines.add(name + " power limit",
              fmt::format("{:.0f} W, by default {:.0f} W", *gpu.power_limit_w, *gpu.default_power_limit_w));
  lines.add(name + " clock", of_most(gpu.clock_mhz, " MHz"));
  lines.add(name + " memory clock", of_most(gpu.memory_clock_mhz, " MHz"));
  if (gpu.throttle) lines.add(name + " throttling", describe_throttle(*gpu.throttle));
  if (gpu.temperature_c) lines.add(name + " temperature", fmt::format("{} C", *gpu.temperature_c));
  if (gpu.ecc) lines.add(name + " ECC", *gpu.ecc ? "on" : "off");
  if (gpu.mig) lines.add(name + " MIG", *gpu.mig ? "on" : "off");
  lines.add(name + " PCIe generation", of_most(gpu.pcie_generation, ""));
  lines.add(name + " PCIe width", of_most(gpu.pcie_width, " lanes"));
  if (gpu.nvlinks > 0) lines.add(name + " NVLink", format_count(gpu.nvlinks, "link"));
}

/// "; its data sheet says 4800 GB/s (...)", of a GPU that the table knows.
std::string of_data_sheet(const KnownCard* card, double peak, double unit, std::string_view unit_name) {
  return card == nullptr ? ""
                         : fmt::format("; its data sheet says {} {} ({})", format_significant(peak / unit), unit_name,
                                       card->source);
}

void describe_rates(const MachineFacts& facts, Lines& lines) {
  const MeasuredFacts& measured = *facts.measured;
  const GpuFacts* const gpu = measured.is_gpu ? used_gpu(facts) : nullptr;
  const KnownCard* const card = gpu == nullptr ? nullptr : card_of(gpu->name);
  const char* const where = measured.is_gpu ? "on the GPU" : "by all threads";
  lines.add("copies", fmt::format("{} GB/s read and written {}{}", format_significant(measured.copy_bytes_per_s / 1e9),
                                  where, of_data_sheet(card, card == nullptr ? 0 : card->bytes_per_s, 1e9, "GB/s")));
  if (measured.product_flops_per_s <= 0) return;
  const double peak = card == nullptr ? 0 : card->flops(measured.product_arithmetic);
  lines.add("matmuls", fmt::format("{} TFLOP/s in {} {}{}", format_significant(measured.product_flops_per_s / 1e12),
                                   measured.product_arithmetic, where, of_data_sheet(card, peak, 1e12, "TFLOP/s")));
}

}  // namespace

// CUDA numbers GPUs of several kinds by speed; here they are in the order of the bus.
std::vector<const GpuFacts*> visible_gpus(const MachineFacts& facts) {
  std::vector<const GpuFacts*> gpus;
  const std::optional<std::string> names = facts.variable("CUDA_VISIBLE_DEVICES");
  if (!names) {
    for (const GpuFacts& gpu : facts.nvml.gpus) gpus.push_back(&gpu);
    return gpus;
  }
  for (const std::string& name : words_of(*names, ", ")) {
    const auto index = number_in<int>(name);
    const auto found = std::ranges::find_if(facts.nvml.gpus, [&](const GpuFacts& gpu) {
      return index ? gpu.index == *index : !gpu.uuid.empty() && gpu.uuid.starts_with(name);
    });
    if (found == facts.nvml.gpus.end()) break;
    gpus.push_back(&*found);
  }
  return gpus;
}

const GpuFacts* used_gpu(const MachineFacts& facts) {
  const std::vector<const GpuFacts*> gpus = visible_gpus(facts);
  const auto index = static_cast<std::size_t>(facts.gpu_index);
  return index < gpus.size() ? gpus[index] : nullptr;
}

MachineSources own_sources() {
  MachineSources sources;
  const std::optional<GpuSonames> names = gpu_sonames();
  sources.built_for_gpu = names.has_value();
  if (names) {
    sources.libraries = needs_of(*names);
    sources.cuda_major = names->cuda_major;
  }
  sources.isa_used = detect_cpu_isa();
  sources.vector_unit = highway_target_name();
  return sources;
}

MachineFacts read_machine(const MachineSources& sources) {
  const Machine machine = describe_machine(sources.root);
  MachineFacts facts;
  facts.root = sources.root;
  facts.os = machine.os;
  facts.kernel = machine.kernel;
  facts.environment = read_environment(sources.root);
  facts.container = container_of(sources.root, facts.environment);
  facts.threads = sources.threads;
  facts.cpu = read_cpu(sources.root, sources.isa_used);
  facts.cpu.vector_unit = sources.vector_unit;
  facts.isa_option = sources.isa_option;
  facts.memory = read_memory(sources.root);
  facts.driver_gpus = static_cast<int>(machine.gpus.size());
  if (!machine.gpus.empty()) facts.kernel_driver = machine.gpus.front().driver.value_or("");
  facts.built_for_gpu = sources.built_for_gpu;
  facts.cuda_major = sources.cuda_major;
  facts.gpu_index = sources.gpu_index;
  if (sources.wants_gpu.value_or(true)) facts.nvml = survey_nvml(sources.nvml);
  facts.wants_gpu = sources.wants_gpu.value_or(facts.driver_gpus > 0 || !facts.nvml.gpus.empty());
  if (facts.wants_gpu) {
    for (const LibraryNeed& need : sources.libraries) facts.libraries.push_back(survey_library(need));
  }
  if (!sources.model_files.empty()) facts.model = look_at_files(sources.model_files);
  return facts;
}

std::vector<Fact> describe(const MachineFacts& facts) {
  std::vector<Fact> all;
  Lines lines(all);
  lines.family("system");
  lines.add("system", facts.os);
  lines.add("kernel", facts.kernel);
  lines.add("container", facts.container);
  lines.family("cpu");
  describe_cpu(facts, lines);
  lines.family("memory");
  describe_memory(facts.memory, lines);
  if (facts.measured) describe_rates(facts, lines);
  if (facts.model) {
    lines.add("model files", fmt::format("{} in {}", format_bytes(facts.model->bytes),
                                         format_count(std::ssize(facts.model->files), "file")));
    if (facts.model->cached_bytes) lines.add("of them cached", format_bytes(*facts.model->cached_bytes));
  }
  lines.family("libraries");
  const dnnl_version_t* const onednn = dnnl_version();
  lines.add("oneDNN", fmt::format("{}.{}.{}, {}", onednn->major, onednn->minor, onednn->patch,
                                  file_of_address(reinterpret_cast<const void*>(&dnnl_version))));  // NOLINT: dladdr(3)
  for (const LibraryFacts& library : facts.libraries) {
    lines.add(library.need.name, library.taken ? fmt::format("{}, {}, by {}", describe_version(*library.taken),
                                                             library.taken->path.native(), library.taken->found_by)
                                               : "not found: " + library.obstacle);
    for (const LibraryCopy& other : library.others)
      lines.add(library.need.name + ", not taken", fmt::format("{}, {}", describe_version(other), other.path.native()));
  }
  if (facts.nvml.is_found) lines.add("NVML", fmt::format("{}, {}", facts.nvml.version, facts.nvml.path));
  lines.family("gpu");
  lines.add("driver", facts.nvml.driver.empty() ? facts.kernel_driver : facts.nvml.driver);
  for (const GpuFacts& gpu : facts.nvml.gpus) describe_gpu(gpu, lines);
  return all;
}

}  // namespace headroom::doctor
