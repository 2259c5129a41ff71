#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"

namespace headroom {

/// What a command left behind.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs programs in a folder of its own, which is removed at the end. They see no GPU: what these tests expect is a
/// CPU's.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { setenv("CUDA_VISIBLE_DEVICES", "", 1); }
  ~ProgramTest() override {
    if (visible_)
      setenv("CUDA_VISIBLE_DEVICES", visible_->c_str(), 1);
    else
      unsetenv("CUDA_VISIBLE_DEVICES");
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// `headroom ARGUMENTS`, by way of a shell.
  [[nodiscard]] Outcome headroom(const std::string& arguments) const {
    return run(std::string(kHeadroomBinary) + " " + arguments);
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
  static std::optional<std::string> find_variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  std::optional<std::string> visible_ = find_variable("CUDA_VISIBLE_DEVICES");
  TempFolder folder_;
};

}  // namespace headroom
