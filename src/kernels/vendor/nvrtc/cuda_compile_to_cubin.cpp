#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "kernels/vendor/nvrtc/compile_to_cubin.hpp"
#include "kernels/vendor/nvrtc/library.cuh"

namespace headroom::nvrtc {
namespace {

constexpr std::size_t kMostLogLines = 8;

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

/// As one line, as messages are.
std::string first_lines(const std::string& log) {
  std::vector<std::string_view> lines;
  for (std::string_view rest = log; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty()) continue;
    if (lines.size() == kMostLogLines) {
      lines.emplace_back("...");
      break;
    }
    lines.push_back(line);
  }
  return fmt::format("{}", fmt::join(lines, " | "));
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
    fail("NVRTC does not compile a kernel for {} ({}): {}", architecture, library().GetErrorString(status),
         first_lines(program.log()));
  return program.cubin();
}

std::string describe_compilation(const std::string& source, const std::string& architecture) {
  return fmt::format("// {} {}\n{}", version_text(), fmt::join(options_for(architecture), " "), source);
}

}  // namespace headroom::nvrtc
