#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/file.hpp"

namespace headroom {

/// What a command left behind.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs programs in a folder of its own, which is removed at the end.
class MeasureTest : public testing::Test {
 protected:
  MeasureTest() {
    std::string name = (std::filesystem::temp_directory_path() / "headroom_measure_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~MeasureTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// `headroom ARGUMENTS`, by way of a shell.
  [[nodiscard]] Outcome headroom(const std::string& arguments) const {
    return run(std::string(HEADROOM_BINARY) + " " + arguments);
  }
  [[nodiscard]] Outcome run(const std::string& command) const {
    Outcome outcome;
    FILE* pipe = popen((command + " 2>" + file("stderr")).c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      outcome.out.append(buffer.data(), n);
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.err = read_file(file("stderr"));
    return outcome;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace headroom
