#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/test_util.hpp"

/// What several tests of measure/ need; included by *_test.cpp only.
namespace headroom {

/// A folder that stands for "/", removed at the end of the scope.
class FakeRoot {
 public:
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace headroom
