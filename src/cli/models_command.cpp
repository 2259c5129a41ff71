#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.hpp"
#include "base/output.hpp"
#include "cli/commands.hpp"
#include "cli/table_output.hpp"
#include "measure/table.hpp"
#include "pipelines/examples.hpp"
#include "run/component.hpp"

namespace headroom {
namespace {

/// "6.22 M", "11.90 B"
std::string format_parameters(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count < 1e9 ? fmt::format("{:.2f} M", count / 1e6) : fmt::format("{:.2f} B", count / 1e9);
}

void list_models(bool as_json) {
  const std::vector<ShippedModel> models = list_shipped_models();
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const ShippedModel& model : models)
      list.push_back({{"name", model.name},
                      {"parameters", model.parameters},
                      {"description", model.description},
                      {"folder", model.folder.string()}});
    print_out("{}\n", dump_json(list, 2));
    return;
  }
  Table table;
  table.add_column(Column{.header = "model", .align = Align::kLeft});
  table.add_column("parameters");
  table.add_column("what it is", Align::kLeft);
  for (const ShippedModel& model : models)
    table.add_row({model.name, format_parameters(model.parameters), model.description});
  print_tables(table);
}

void list_components_of(const std::string& folder, bool as_json) {
  const std::vector<FoundComponent> components = list_components(folder);
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const FoundComponent& found : components)
      list.push_back({{"folder", found.folder.string()},
                      {"class", found.class_name},
                      {"parameters", found.parameters ? nlohmann::json(*found.parameters) : nlohmann::json()},
                      {"passes", found.passes}});
    print_out("{}\n", dump_json(list, 2));
    return;
  }
  Table table;
  table.add_column("component", Align::kLeft);
  table.add_column("class", Align::kLeft);
  table.add_column("parameters");
  table.add_column("passes", Align::kLeft);
  for (const FoundComponent& found : components)
    table.add_row({found.folder.string(), found.class_name,
                   found.parameters ? format_parameters(*found.parameters) : "-",
                   found.passes.empty() ? "not supported" : fmt::format("{}", fmt::join(found.passes, ", "))});
  print_tables(table);
}

struct ModelsArguments {
  std::string folder;
  bool as_json = false;
};

}  // namespace

void add_models_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("models", "what can be run, with parameter counts");
  const auto arguments = std::make_shared<ModelsArguments>();
  command->add_option(
      "FOLDER", arguments->folder,
      "in place of what ships: the networks of this checkpoint folder, and which passes of each there are");
  command->add_flag("--json", arguments->as_json, "machine-readable output");
  command->footer(
      fmt::format("Example: headroom models\n"
                  "         headroom models {}",
                  examples::kFolder));
  command->callback([arguments] {
    arguments->folder.empty() ? list_models(arguments->as_json)
                              : list_components_of(arguments->folder, arguments->as_json);
  });
}

}  // namespace headroom
