#include "cli/given_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace headroom {

std::vector<std::string> given_options(const CLI::App& command, std::span<const std::string_view> others) {
  std::vector<std::string> arguments;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || !option->nonpositional()) continue;
    const std::string name = option->get_name();
    if (std::ranges::find(others, std::string_view(name)) != others.end()) continue;
    if (option->get_items_expected_max() == 0)
      arguments.push_back(name);
    else
      for (const std::string& value : option->results()) arguments.push_back(fmt::format("{}={}", name, value));
  }
  return arguments;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace headroom
