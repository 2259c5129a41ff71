#include "doctor/probes/library_survey.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "doctor/probes/system_text.hpp"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

struct CloseLibrary {
  void operator()(void* library) const noexcept { dlclose(library); }
};
using OpenLibrary = std::unique_ptr<void, CloseLibrary>;

constexpr std::array kSystemFolders = {"/lib/x86_64-linux-gnu",
                                       "/usr/lib/x86_64-linux-gnu",
                                       "/lib/aarch64-linux-gnu",
                                       "/usr/lib/aarch64-linux-gnu",
                                       "/lib64",
                                       "/usr/lib64",
                                       "/lib",
                                       "/usr/lib"};

/// The path by which the loader knows an open library.
std::string loader_path(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

/// The folders in which the loader searches for a library that the program opens, in order, but those of its cache.
std::vector<std::string> loader_folders() {
  const OpenLibrary program(dlopen(nullptr, RTLD_LAZY));
  Dl_serinfo size{};
  if (!program || dlinfo(program.get(), RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  const std::vector<std::byte> memory(size.dls_size);
  auto* const info = reinterpret_cast<Dl_serinfo*>(const_cast<std::byte*>(memory.data()));  // NOLINT: dlinfo(3)
  if (dlinfo(program.get(), RTLD_DI_SERINFOSIZE, info) != 0 || dlinfo(program.get(), RTLD_DI_SERINFO, info) != 0)
    return {};
  std::vector<std::string> folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i)
    folders.emplace_back(info->dls_serpath[i].dls_name);  // NOLINT: dlinfo(3)
  return folders;
}

/// The folders of the loader's cache that /etc/ld.so.conf.d names.
std::vector<std::string> configured_folders() {
  std::vector<std::string> folders;
  std::error_code none;
  for (const fs::directory_entry& file : fs::directory_iterator("/etc/ld.so.conf.d", none))
    for (const std::string& word : words_of(system_text(file.path())))
      if (word.starts_with('/')) folders.push_back(word);
  return folders;
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  return error ? path : file;
}

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

std::string found_by(const fs::path& path, const std::vector<std::string>& searched) {
  const fs::path folder = path.parent_path();
  const auto is_here = [&](const std::string& other) { return is_same_folder(folder, other); };
  const char* const from_user = std::getenv("LD_LIBRARY_PATH");
  if (from_user != nullptr && std::ranges::any_of(words_of(from_user, ":;"), is_here)) return "LD_LIBRARY_PATH";
  if (std::ranges::any_of(kSystemFolders, is_here)) return "the system's folders";
  if (std::ranges::any_of(searched, is_here)) return "the program's RUNPATH";
  return "the loader's cache";
}

std::optional<PackedVersion> version_of(void* library, const LibraryNeed& need) {
  void* const function = dlsym(library, need.version_function.c_str());
  if (need.version_function.empty() || function == nullptr) return std::nullopt;
  if (need.form == VersionForm::kReturned)
    return static_cast<PackedVersion>(reinterpret_cast<std::size_t (*)()>(function)());  // NOLINT: what dlsym is for
  if (need.form == VersionForm::kStored) {
    std::uint32_t version = 0;
    const int status = reinterpret_cast<int (*)(std::uint32_t*)>(function)(&version);  // NOLINT: what dlsym is for
    return status == 0 ? std::optional<PackedVersion>(version) : std::nullopt;
  }
  int major = 0, minor = 0;
  const int status = reinterpret_cast<int (*)(int*, int*)>(function)(&major, &minor);  // NOLINT: what dlsym is for
  return status == 0 ? std::optional<PackedVersion>(PackedVersion{major} * 10000 + PackedVersion{minor} * 100)
                     : std::nullopt;
}

LibraryCopy describe_copy(const fs::path& path, void* library, const LibraryNeed& need,
                          const std::vector<std::string>& searched) {
  return {.path = path,
          .file = resolved(path),
          .version = library == nullptr ? std::nullopt : version_of(library, need),
          .found_by = found_by(path, searched)};
}

}  // namespace

std::string version_text(PackedVersion version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

LibraryFacts survey_library(const LibraryNeed& need) {
  LibraryFacts facts{.need = need, .taken = {}, .others = {}, .obstacle = {}};
  std::vector<std::string> folders = loader_folders();
  const OpenLibrary taken(dlopen(need.soname.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (taken)
    facts.taken = describe_copy(loader_path(taken.get()), taken.get(), need, folders);
  else
    facts.obstacle = dlerror();
  std::vector<fs::path> seen;
  if (facts.taken) seen.push_back(facts.taken->file);
  const std::vector<std::string> configured = configured_folders();
  const std::vector<std::string> searched = folders;
  folders.insert(folders.end(), configured.begin(), configured.end());
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / need.soname;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    const fs::path file = resolved(path);
    if (std::ranges::find(seen, file) != seen.end()) continue;
    seen.push_back(file);
    const OpenLibrary other(dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL));
    facts.others.push_back(describe_copy(path, other.get(), need, searched));
  }
  return facts;
}

std::string path_of_loaded(const std::string& name) {
  const OpenLibrary library(dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD));
  return library ? loader_path(library.get()) : "";
}

std::string file_of_address(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace headroom::doctor
