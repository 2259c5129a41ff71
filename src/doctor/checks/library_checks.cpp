#include <fmt/format.h>

#include <algorithm>

#include "base/text/format.hpp"
#include "doctor/checks/families.hpp"
#include "measure/probes/nvml_library.hpp"

namespace headroom::doctor {
namespace {

std::string describe_copy(const LibraryCopy& copy) {
  return fmt::format("{}, version {}, by {}", copy.path.native(),
                     copy.version ? version_text(*copy.version) : "unknown", copy.found_by);
}

}  // namespace

void find_build_without_cuda(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (facts.built_for_gpu || !facts.wants_gpu) return;
  const int gpus = std::max(facts.driver_gpus, static_cast<int>(facts.nvml.gpus.size()));
  if (gpus == 0) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = "The machine has an NVIDIA GPU, and this program was built without CUDA.",
       .evidence = {{"/proc/driver/nvidia/gpus and NVML", format_count(gpus, "GPU"), "a program built for GPUs"}},
       .mend = "scripts/bootstrap.sh cuda && make",
       .cost = {.words = "everything runs on the CPU", .factor = {}}});
}

void find_missing_library(const MachineFacts& facts, std::string_view id, Findings& findings) {
  for (const LibraryFacts& library : facts.libraries) {
    if (library.taken) continue;
    const LibraryNeed& need = library.need;
    findings.push_back(
        {.id = std::string(id),
         .severity = need.is_essential ? Severity::kWrong : Severity::kCould,
         .sentence = fmt::format("{} is missing, which {} needs.", need.name, need.used_for),
         .evidence = {{"dlopen of " + need.soname, library.obstacle, "a file"}},
         .mend = fmt::format("pip install {}, and put its lib folder into LD_LIBRARY_PATH", need.package),
         .cost = {.words = need.is_essential ? fmt::format("without it: {}", need.used_for)
                                             : need.used_for + " is not possible",
                  .factor = {}}});
  }
}

void find_old_library(const MachineFacts& facts, std::string_view id, Findings& findings) {
  for (const LibraryFacts& library : facts.libraries) {
    const LibraryNeed& need = library.need;
    if (!library.taken || !library.taken->version || *library.taken->version >= need.least) continue;
    findings.push_back(
        {.id = std::string(id),
         .severity = Severity::kWrong,
         .sentence = fmt::format("{} {} is too old: {} needs {}.", need.name, version_text(*library.taken->version),
                                 need.used_for, version_text(need.least)),
         .evidence = {{need.version_function + "() of " + library.taken->path.native(),
                       version_text(*library.taken->version), version_text(need.least) + " or newer"}},
         .mend = fmt::format("pip install -U '{}>={}', and put its lib folder first into LD_LIBRARY_PATH", need.package,
                             version_text(need.least)),
         .cost = {.words = fmt::format("slower kernels run instead: {}", need.used_for), .factor = {}}});
  }
}

void find_shadowed_library(const MachineFacts& facts, std::string_view id, Findings& findings) {
  for (const LibraryFacts& library : facts.libraries) {
    if (!library.taken || !library.taken->version) continue;
    const auto newest =
        std::ranges::max_element(library.others, {}, [](const LibraryCopy& copy) { return copy.version.value_or(0); });
    if (newest == library.others.end() || newest->version.value_or(0) <= *library.taken->version) continue;
    const std::string folder = newest->path.parent_path().native();
    findings.push_back(
        {.id = std::string(id),
         .severity = Severity::kWrong,
         .sentence = fmt::format("The loader takes {} {} from {}, although {} is there.", library.need.name,
                                 version_text(*library.taken->version), library.taken->found_by,
                                 version_text(*newest->version)),
         .evidence = {{"dlopen of " + library.need.soname, describe_copy(*library.taken), newest->path.native()},
                      {"the same soname later in the loader's search", describe_copy(*newest), "taken"}},
         .mend = library.taken->found_by == "LD_LIBRARY_PATH"
                     ? fmt::format("take {} out of LD_LIBRARY_PATH, or put {} before it",
                                   library.taken->path.parent_path().native(), folder)
                     : fmt::format("LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH headroom ...", folder),
         .cost = {.words = fmt::format("older kernels run than are installed: {}", library.need.used_for),
                  .factor = {}}});
  }
}

void find_missing_nvml(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (!facts.wants_gpu || facts.nvml.status == NvmlLibrary::kSuccess ||
      facts.nvml.status == NvmlLibrary::kVersionMismatch)
    return;
  const bool has_driver = facts.driver_gpus > 0;
  findings.push_back(
      {.id = std::string(id),
       .severity = has_driver ? Severity::kUnknown : Severity::kWrong,
       .sentence = facts.nvml.is_found ? "NVML does not start, so the GPUs cannot be looked at."
                                       : "NVML is missing, so the GPUs cannot be looked at.",
       .evidence = {{facts.nvml.is_found ? "nvmlInit_v2" : "dlopen of " + facts.nvml.library,
                     facts.nvml.is_found ? fmt::format("status {}", facts.nvml.status) : "not found",
                     facts.nvml.is_found ? "status 0" : "a file"},
                    {"/proc/driver/nvidia/gpus", format_count(facts.driver_gpus, "GPU"), "at least one"}},
       .mend = !has_driver                ? "install NVIDIA's driver, or start the container with --gpus all"
               : !facts.container.empty() ? "start the container with -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                                          : "install the driver's library libnvidia-ml.so.1 (Debian: libnvidia-ml1)",
       .cost = {
           .words = has_driver ? "clocks, power, throttling and memory of GPUs are not recorded" : "no GPU can be used",
           .factor = {}}});
}

void find_driver_mismatch(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const NvmlSurvey& nvml = facts.nvml;
  // NVML's version begins with that of CUDA's management interface: "12.560.35.03" belongs to driver 560.35.03.
  const bool differs = nvml.status == NvmlLibrary::kSuccess && !nvml.version.empty() && !facts.kernel_driver.empty() &&
                       !nvml.version.ends_with(facts.kernel_driver);
  if (nvml.status != NvmlLibrary::kVersionMismatch && !differs) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = "The driver's libraries and its kernel module are of different versions.",
       .evidence = {{nvml.version.empty() ? "nvmlInit_v2" : "nvmlSystemGetNVMLVersion",
                     nvml.version.empty() ? fmt::format("status {}", nvml.status) : nvml.version,
                     "that of the kernel module"},
                    {"/proc/driver/nvidia/version", facts.kernel_driver, "that of the libraries"}},
       .mend = "reboot after the driver's update, or install the driver's libraries of the module's version",
       .cost = {.words = "no GPU can be used", .factor = {}}});
}

void find_old_driver(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (facts.cuda_major == 0 || facts.nvml.cuda_version == 0 || facts.nvml.cuda_version / 1000 >= facts.cuda_major)
    return;
  const std::string known = fmt::format("{}.{}", facts.nvml.cuda_version / 1000, facts.nvml.cuda_version % 1000 / 10);
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence =
           fmt::format("The driver knows CUDA {}, and this program was built for CUDA {}.", known, facts.cuda_major),
       .evidence = {{"nvmlSystemGetCudaDriverVersion_v2", known, fmt::format("{}.0 or newer", facts.cuda_major)}},
       .mend = fmt::format("update the driver to one for CUDA {}", facts.cuda_major),
       .cost = {.words = "no GPU can be used", .factor = {}}});
}

}  // namespace headroom::doctor
