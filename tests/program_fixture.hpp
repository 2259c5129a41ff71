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

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"

namespace headroom {

/// The exit code and output of a command.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs programs in a temporary folder, which is removed at the end. They see no GPU, because the expected results
/// are those of a CPU. Their terminal is so wide that no table is cut or wrapped.
class ProgramTest : public testing::Test {
 protected:
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// The program built with the tests, or, if that does not exist, the one next to them in a bundle.
  [[nodiscard]] static std::string program() {
    if (std::filesystem::exists(kHeadroomBinary)) return kHeadroomBinary;
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "headroom";
  }
  /// Runs `headroom ARGUMENTS` through a shell.
  [[nodiscard]] Outcome headroom(const std::string& arguments) const {
    return run(program() + " " + arguments);
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
  /// Sets an environment variable temporarily.
  class Variable {
   public:
    Variable(const char* name, const char* value) : name_(name) {
      if (const char* const before = std::getenv(name)) before_ = before;
      setenv(name, value, 1);
    }
    ~Variable() {
      if (before_)
        setenv(name_, before_->c_str(), 1);
      else
        unsetenv(name_);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

   private:
    const char* name_;
    std::optional<std::string> before_;
  };

  Variable gpus_{"CUDA_VISIBLE_DEVICES", ""};
  Variable columns_{"COLUMNS", "400"};
  TempFolder folder_;
};

}  // namespace headroom
