#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/text/format.hpp"
#include "doctor/checks/families.hpp"

namespace headroom::doctor {

void find_memory_limit(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (!facts.model) return;
  const std::uint64_t needed = facts.model->bytes;
  for (const MemoryLimit& limit : facts.memory.limits) {
    const bool is_group = !limit.source.starts_with("/proc");
    const std::uint64_t room =
        is_group ? std::min<std::uint64_t>(limit.bytes, facts.memory.room_bytes.value_or(limit.bytes)) : limit.bytes;
    if (room >= needed) continue;
    findings.push_back(
        {.id = std::string(id),
         .severity = Severity::kWrong,
         .sentence = fmt::format("The model's files have {}, and a limit leaves this process {}.", format_bytes(needed),
                                 format_bytes(room)),
         .evidence = {{limit.source, format_bytes(limit.bytes) + " by " + limit.name, "over " + format_bytes(needed)}},
         .mend = is_group ? fmt::format("raise the limit of the container above {} (docker --memory, Kubernetes "
                                        "limits.memory), or choose a smaller dtype",
                                        format_bytes(needed))
                          : "raise the limit in the shell that starts it: ulimit -v unlimited -d unlimited",
         .cost = {.words = "on a CPU the program ends when its memory is full; on a GPU weights are read from the disk "
                           "again and again while they load",
                  .factor = {}}});
    return;
  }
}

void find_short_memory(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const MemoryFacts& memory = facts.memory;
  if (!facts.model || memory.available_bytes == 0 || facts.model->bytes <= memory.available_bytes) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = fmt::format("The model's files have {}, and {} of memory are available.",
                               format_bytes(facts.model->bytes), format_bytes(memory.available_bytes)),
       .evidence = {{"/proc/meminfo, MemAvailable", format_bytes(memory.available_bytes),
                     "over " + format_bytes(facts.model->bytes)}},
       .mend = "end other programs, which `top -o %MEM` shows, or choose a smaller dtype",
       .cost = {.words = "the model does not run on the CPU, and is read from the disk more than once for a GPU",
                .factor = {}}});
}

void find_huge_pages_off(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (facts.memory.huge_pages.find("[never]") == std::string::npos) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kCould,
       .sentence = "The system gives no huge pages, which Headroom asks for from 4 MiB on.",
       .evidence = {{"/sys/kernel/mm/transparent_hugepage/enabled", facts.memory.huge_pages, "[madvise] or [always]"}},
       .mend = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
       .cost = {.words = "TLB misses in large weights and activations on a CPU", .factor = {}}});
}

namespace {

/// A path as one word of a POSIX shell: in quotes if it has a character that a shell may not take as it is.
std::string shell_word(const std::string& path) {
  const bool is_plain = std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("/._-+=:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return path;
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// "a/unet/*.safetensors a/vae/*.safetensors": every file, by its folder if there are several.
std::string shell_words_of(std::span<const std::filesystem::path> files) {
  if (files.size() == 1) return shell_word(files.front().native());
  std::set<std::string> patterns;
  for (const std::filesystem::path& file : files)
    patterns.insert(shell_word(file.parent_path().native()) + "/*" + file.extension().native());
  return fmt::format("{}", fmt::join(patterns, " "));
}

}  // namespace

/// Less is read from any disk in a moment.
constexpr std::uint64_t kLeastMissing = std::uint64_t{64} << 20;

void find_cold_page_cache(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (!facts.model || facts.model->bytes == 0) return;
  const std::string of_files =
      "mincore of " + (facts.model->files.size() == 1 ? facts.model->files.front().native()
                                                      : format_count(std::ssize(facts.model->files), "file"));
  if (!facts.model->cached_bytes) {
    findings.push_back(
        {.id = std::string(id),
         .severity = Severity::kUnknown,
         .sentence = "Whether the model's files are in memory is not known.",
         .evidence = {{of_files, "nothing: this user may not write them", "their resident pages"}},
         .mend = "look as the owner of the files",
         .cost = {.words = fmt::format("the first load may read {} from the disk", format_bytes(facts.model->bytes)),
                  .factor = {}}});
    return;
  }
  const std::uint64_t missing = facts.model->bytes - std::min(facts.model->bytes, *facts.model->cached_bytes);
  if (missing < kLeastMissing || 2 * missing < facts.model->bytes) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kCould,  // loading only, and only the first time
       .sentence = fmt::format("{} of the model's {} are not in memory yet.", format_bytes(missing),
                               format_bytes(facts.model->bytes)),
       .evidence = {{of_files, format_bytes(*facts.model->cached_bytes) + " resident",
                     format_bytes(facts.model->bytes)}},
       .mend = fmt::format("read it once: cat {} >/dev/null", shell_words_of(facts.model->files)),
       .cost = {.words = fmt::format("the first load reads {} from the disk", format_bytes(missing)), .factor = {}}});
}

void find_small_shm(const MachineFacts& facts, std::string_view id, Findings& findings) {
  constexpr std::size_t kDockerDefault = std::size_t{64} << 20;
  if (!facts.memory.shm_bytes || *facts.memory.shm_bytes > kDockerDefault || facts.nvml.gpus.size() < 2) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kCould,
       .sentence = fmt::format("/dev/shm has {}, which is too small for NCCL between several GPUs.",
                               format_bytes(*facts.memory.shm_bytes)),
       .evidence = {{"/proc/self/mountinfo, /dev/shm", format_bytes(*facts.memory.shm_bytes), "1 GiB or more"}},
       .mend = "docker run --shm-size=1g",
       .cost = {.words = "work on several GPUs may fail to start", .factor = {}}});
}

}  // namespace headroom::doctor
