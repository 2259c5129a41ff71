#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/test_paths.hpp"

/// Utilities for several unit tests; included by *_test.cpp only.
namespace headroom {

/// A fresh folder that is removed with everything in it at the end of the scope.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "headroom-test-XXXXXX").string();
    HR_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = std::filesystem::canonical(pattern);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] friend std::filesystem::path operator/(const TempFolder& folder, const std::filesystem::path& name) {
    return folder.path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// The source tree, given as kSourceDir, or, if that does not exist, the folder into which a bundle was unpacked.
[[nodiscard]] inline std::filesystem::path source_dir(const char* built_from) {
  return std::filesystem::exists(built_from)
             ? built_from
             : std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

/// The message of the headroom::Error that `function` throws; "(no error)" if it throws none.
template <typename Function>
[[nodiscard]] std::string error_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace headroom
