#include "cli/usage.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/nearest.hpp"

namespace headroom {
namespace {

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : fmt::format("{} {}", full_name(*parent), command.get_name());
}

/// An argument or an option that a command cannot do without: " MODEL", " [MODEL]", " RESULTS...", " --out DIR"; of
/// other options nothing.
std::string usage_of(const CLI::Option& option) {
  if (option.get_positional()) {
    const std::string name = option.get_name() + (option.get_items_expected_max() > 1 ? "..." : "");
    return option.get_required() ? " " + name : fmt::format(" [{}]", name);
  }
  return option.get_required() ? fmt::format(" {} {}", option.get_name(), option.get_type_name()) : "";
}

/// The command that the arguments chose, or the program where they chose none.
const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// Without those that are for the program alone.
std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->nonpositional() && !option->get_group().empty()) names.push_back(option->get_name());
  return names;
}

std::string explain_unknown(const CLI::App& app, const std::vector<std::string>& unknown) {
  const CLI::App& command = chosen(app);
  std::string list;
  std::string meant;
  for (const std::string& argument : unknown) {
    list += " " + argument;
    if (meant.empty() && argument.starts_with('-'))
      meant = did_you_mean(std::string_view(argument).substr(0, argument.find('=')), names_of_options(command));
  }
  return fmt::format("{} not expected:{}{}", unknown.size() == 1 ? "this argument was" : "these arguments were", list,
                     meant);
}

}  // namespace

std::string usage_of(const CLI::App& command) {
  std::string usage = full_name(command);
  if (command.get_parent() == nullptr) usage += " COMMAND";
  for (const CLI::Option* option : command.get_options()) usage += usage_of(*option);
  return usage + " [options]";
}

std::string usage_hint(const CLI::App& app) {
  const CLI::App& command = chosen(app);
  return fmt::format("usage: {}; see {} --help", usage_of(command), full_name(command));
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);  // in the order in which they were given
  if (app.get_subcommands().empty() && !unknown.empty() && !unknown.front().starts_with('-'))
    return fmt::format("unknown command '{}'{}", unknown.front(),
                       did_you_mean(unknown.front(), names_of_commands(app)));
  if (!unknown.empty() && (app.get_subcommands().empty() || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr))
    return explain_unknown(app, unknown);
  if (app.get_subcommands().empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return "a command was expected";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    for (const CLI::Option* option : chosen(app).get_options())
      if (option->get_items_expected_max() == 1 && option->count() > 1)
        return fmt::format("{} is given {} times, expected once", option->get_name(), option->count());
  return error.what();
}

std::string UsageFormatter::make_usage(const CLI::App* command, std::string /*name*/) const {
  return fmt::format("Usage: {}\n", usage_of(*command));
}

}  // namespace headroom
