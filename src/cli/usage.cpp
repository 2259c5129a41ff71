#include "cli/usage.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <string_view>
#include <vector>

#include "cli/option_names.hpp"
#include "measure/tables/wrap.hpp"

namespace headroom {
namespace {

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : fmt::format("{} {}", full_name(*parent), command.get_name());
}

/// The usage of an argument or a required option: " MODEL", " [MODEL]", " RESULTS...", " --out DIR". Empty for
/// other options.
std::string usage_of(const CLI::Option& option) {
  if (option.get_positional()) {
    const std::string name = option.get_name() + (option.get_items_expected_max() > 1 ? "..." : "");
    return option.get_required() ? " " + name : fmt::format(" [{}]", name);
  }
  return option.get_required() ? fmt::format(" {} {}", option.get_name(), option.get_type_name()) : "";
}

/// The chosen command, or the program if none was chosen.
const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

/// The option whose value precedes `argument`, without another option between them; null if there is none.
const CLI::Option* option_before(const CLI::App& command, const std::vector<std::string>& arguments,
                                 const std::string& argument) {
  const auto end = std::ranges::find(arguments, argument);
  auto at = end;
  while (at != arguments.begin() && !(at - 1)->starts_with('-')) --at;
  if (at == arguments.begin()) return nullptr;
  const std::string& given = *(at - 1);
  const std::size_t equals = given.find('=');
  if (at == end && equals == std::string::npos) return nullptr;  // a flag
  return command.get_option_no_throw(given.substr(0, equals));
}

/// A hint for an option that was given more than one value.
std::string hint_at_values(const CLI::Option& option) {
  const std::string name = option.get_name();
  const std::string type = option.get_type_name();
  if (name.find("prompt") != std::string::npos && type == "TEXT")
    return fmt::format("; {0} takes one value: quote a text of several words, as in {0} \"an ankle boot\"", name);
  if (type == "LIST") return fmt::format("; {} takes one value: separate its items by commas, without blanks", name);
  if (option.get_items_expected_max() > 1) return fmt::format("; {} takes one value each time: give it again", name);
  return option.get_items_expected_max() == 1 ? fmt::format("; {} takes one value", name) : "";
}

std::string explain_unknown(const CLI::App& app, const std::vector<std::string>& unknown,
                            const std::vector<std::string>& arguments) {
  const CLI::App& command = chosen(app);
  std::string list;
  std::string hint;
  for (const std::string& argument : unknown) {
    list += " " + argument;
    if (!hint.empty()) continue;
    if (argument.starts_with('-'))
      hint = hint_at_option(command, argument);
    else if (const CLI::Option* const option = option_before(command, arguments, argument))
      hint = hint_at_values(*option);
  }
  return fmt::format("{} not expected:{}{}", unknown.size() == 1 ? "this argument was" : "these arguments were", list,
                     hint);
}

/// The missing argument or option, when CLI11 reports that something is required.
std::string explain_missing(const CLI::App& command, const CLI::RequiredError& error) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return option->get_positional() ? fmt::format("{} is missing: {}", option->get_name(), option->get_description())
                                      : fmt::format("{} is required", option->get_name());
  return error.what();
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

namespace {

bool is_command(const CLI::App& app, const std::string& name) {
  return std::ranges::any_of(app.get_subcommands({}), [&](const CLI::App* each) { return each->get_name() == name; });
}

}  // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const std::vector<std::string> unknown = app.remaining(true);  // in the given order
  const bool has_command = !app.get_subcommands().empty();
  const std::string& first = arguments.empty() ? std::string() : arguments.front();
  if (!first.empty() && !first.starts_with('-') && !is_command(app, first))  // as in `help run`
    return fmt::format("unknown command '{}'{}", first, hint_at_command(app, first));
  if (!has_command && !unknown.empty() && !unknown.front().starts_with('-'))
    return fmt::format("unknown command '{}'{}", unknown.front(), hint_at_command(app, unknown.front()));
  if (!unknown.empty() && (!has_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr))
    return explain_unknown(app, unknown, arguments);
  if (const auto* const required = dynamic_cast<const CLI::RequiredError*>(&error))
    return has_command ? explain_missing(chosen(app), *required) : "a command was expected";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    for (const CLI::Option* option : chosen(app).get_options())
      if (option->get_items_expected_max() == 1 && option->count() > 1)
        return fmt::format("{} is given {} times, expected once", option->get_name(), option->count());
  return error.what();
}

std::string UsageFormatter::make_description(const CLI::App* command) const {
  return wrap_text(Formatter::make_description(command), columns_);
}

std::string UsageFormatter::make_usage(const CLI::App* command, std::string /*name*/) const {
  return wrap_text(fmt::format("Usage: {}\n", usage_of(*command)), columns_);
}

std::string UsageFormatter::make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const {
  std::string help = Formatter::make_help(command, std::move(name), mode);
  for (std::size_t at = 0; (at = help.find("\n\n\n", at)) != std::string::npos;) help.erase(at, 1);
  return help;
}

std::string UsageFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
}

std::string UsageFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_display_name(true), command->get_description());
}

std::string UsageFormatter::make_footer(const CLI::App* command) const {
  constexpr std::string_view kExample = "Example: ";
  constexpr std::string_view kGoesOn = " \\";
  std::string footer;
  const std::string text = command->get_footer();
  for (const auto part : std::views::split(text, '\n')) {
    const std::string_view line(part.begin(), part.end());
    const bool is_call = line.starts_with(kExample) || line.starts_with(std::string(kExample.size(), ' '));
    if (!is_call || display_width(line) <= columns_) {
      footer += wrap_text(line, columns_);
      continue;
    }
    const std::vector<std::string> lines =
        wrap_line(line, {.width = columns_ - kGoesOn.size(), .indent = kExample.size() + 4, .separators = ""});
    footer += fmt::format("{}\n", fmt::join(lines, fmt::format("{}\n", kGoesOn)));
  }
  return footer;
}

std::string UsageFormatter::entry(const std::string& name, const std::string& meaning) const {
  constexpr std::size_t kIndent = 2, kGap = 2;
  const std::size_t column = std::min<std::size_t>(get_column_width(), columns_ / 3);
  const std::vector<std::string> meanings = wrap_line(meaning, {.width = columns_ - column});
  std::size_t shown = 0;
  std::string text;
  for (const std::string& line :
       wrap_line(std::string(kIndent, ' ') + name, {.width = columns_, .indent = 3 * kIndent}))
    text += (text.empty() ? "" : "\n") + line;
  if (display_width(text) + kGap <= column) {
    if (!meaning.empty()) text += std::string(column - display_width(text), ' ') + meanings[shown];
    ++shown;
  }
  text += '\n';
  for (; shown < meanings.size(); ++shown)
    if (!meanings[shown].empty()) text += std::string(column, ' ') + meanings[shown] + '\n';
  return text;
}

}  // namespace headroom
