#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "kernels/nvrtc/compile.hpp"
#include "kernels/nvrtc/library.cuh"

namespace headroom::nvrtc {
namespace {

constexpr int kMostLogLines = 8;

std::vector<std::string> options_for(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "-std=c++17", "-default-device"};
}

class Program {
 public:
  explicit Program(const std::string& source) {
    check(library().CreateProgram(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr));
  }
  ~Program() { static_cast<void>(library().DestroyProgram(&program_)); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    return library().CompileProgram(program_, static_cast<int>(words.size()), words.data());
  }
  [[nodiscard]] std::string log() const {
    std::size_t bytes = 0;
    check(library().GetProgramLogSize(program_, &bytes));
    std::string log(bytes, '\0');
    check(library().GetProgramLog(program_, log.data()));
    log.resize(std::min(log.size(), log.find('\0')));
    return log;
  }
  [[nodiscard]] std::string cubin() const {
    std::size_t bytes = 0;
    check(library().GetCUBINSize(program_, &bytes));
    std::string cubin(bytes, '\0');
    check(library().GetCUBIN(program_, cubin.data()));
    return cubin;
  }

 private:
  nvrtcProgram program_ = nullptr;
};

std::string first_lines(const std::string& log) {
  std::size_t end = 0;
  for (int line = 0; line < kMostLogLines && end < log.size(); ++line)
    end = std::min(log.find('\n', end), log.size() - 1) + 1;
  const bool is_cut = end < log.size();
  std::string text = log.substr(0, end);
  text.resize(text.find_last_not_of('\n') + 1);
  return is_cut ? text + "\n..." : text;
}

std::vector<int> supported_architectures() {
  int count = 0;
  check(library().GetNumSupportedArchs(&count));
  std::vector<int> found(static_cast<std::size_t>(count));
  check(library().GetSupportedArchs(found.data()));
  return found;
}

std::string look_for_library() {
  try {
    static_cast<void>(library());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string version_text() {
  int major = 0, minor = 0;
  check(library().Version(&major, &minor));
  return fmt::format("NVRTC {}.{}", major, minor);
}

std::string obstacle() {
  static const std::string kObstacle = look_for_library();  // once: the loader looks into many folders
  return kObstacle;
}

std::string obstacle(int compute_capability) {
  if (std::string missing = obstacle(); !missing.empty()) return missing;
  const std::vector<int> known = supported_architectures();
  if (std::ranges::find(known, compute_capability) != known.end()) return {};
  return fmt::format("{} compiles for sm_{}, not for sm_{}", version_text(), fmt::join(known, ", sm_"),
                     compute_capability);
}

std::string compile_to_cubin(const std::string& source, const std::string& architecture) {
  Program program(source);
  if (const nvrtcResult status = program.compile(options_for(architecture)); status != NVRTC_SUCCESS)
    fail("NVRTC does not compile a kernel for {} ({}):\n{}", architecture, library().GetErrorString(status),
         first_lines(program.log()));
  return program.cubin();
}

std::string describe_compilation(const std::string& source, const std::string& architecture) {
  return fmt::format("// {} {}\n{}", version_text(), fmt::join(options_for(architecture), " "), source);
}

}  // namespace headroom::nvrtc
