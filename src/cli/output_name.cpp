#include "cli/output_name.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace headroom {
namespace {

/// ".png" of "a/S.PNG"
std::string suffix_of(const std::string& name) {
  std::string suffix = std::filesystem::path(name).extension().string();
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return suffix;
}

}  // namespace

CLI::Validator written_as(std::vector<std::string> suffixes, Dash dash) {
  return {[suffixes = std::move(suffixes), dash](const std::string& name) {
            if (name == "-" && dash == Dash::kRefused)
              return std::string("'-' is standard output, which this option does not write to; expected a file");
            const std::string suffix = suffix_of(name);
            if (suffix.empty() || std::ranges::find(suffixes, suffix) != suffixes.end()) return std::string();
            return fmt::format("'{}' ends in {}; what can be written: {}", name, suffix, fmt::join(suffixes, ", "));
          },
          ""};
}

CLI::Validator folder_name() {
  return {[](const std::string& name) {
            constexpr std::array<std::string_view, 12> kOfFiles = {".png", ".jpg",         ".jpeg", ".svg",
                                                                   ".pdf", ".html",        ".json", ".csv",
                                                                   ".md",  ".safetensors", ".gguf", ".bin"};
            if (name == "-") return std::string("'-' is standard output; what can be written: a folder");
            std::error_code ignored;
            const std::string suffix = suffix_of(name);
            if (std::ranges::find(kOfFiles, suffix) == kOfFiles.end() || std::filesystem::is_directory(name, ignored))
              return std::string();
            return fmt::format("'{}' ends in {} as a file does; what can be written: a folder", name, suffix);
          },
          ""};
}

}  // namespace headroom
