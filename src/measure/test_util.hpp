#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/test_util.hpp"

/// Helpers that several tests of measure/ share; included by *_test.cpp only.
namespace headroom {

/// A temporary folder used as the root of a file system; removed at the end of the scope.
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
