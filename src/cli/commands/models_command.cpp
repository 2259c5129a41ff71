#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/table_output.hpp"
#include "measure/tables/table.hpp"
#include "measure/work/found_models.hpp"
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

void list_models_in(const std::string& name_or_folder, bool as_json) {
  if (is_there(name_or_folder) && !is_folder(name_or_folder))
    fail_usage("{} is a file: `headroom inspect` shows its networks", name_or_folder);
  const std::filesystem::path folder = find_model_folder(name_or_folder);
  if (folder.empty()) static_cast<void>(open_component(name_or_folder));  // throws an Error that says what is missing
  std::vector<std::string> broken;
  const std::vector<FoundComponent> models = find_models(folder, broken);
  for (const std::string& reason : broken) Log().warning("left out: {}", reason);
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const FoundComponent& found : models)
      list.push_back({{"folder", found.folder.string()},
                      {"class", found.class_name},
                      {"parameters", found.parameters ? nlohmann::json(*found.parameters) : nlohmann::json()},
                      {"passes", found.passes}});
    print_out("{}\n", dump_json(list, 2));
    return;
  }
  Table table;
  table.add_column("folder", Align::kLeft);
  table.add_column("class", Align::kLeft);
  table.add_column("parameters");
  table.add_column("passes", Align::kLeft);
  for (const FoundComponent& found : models)
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
  CLI::App* command = app.add_subcommand("models", "list the models that can be run, with parameter counts");
  const auto arguments = std::make_shared<ModelsArguments>();
  command->add_option("FOLDER", arguments->folder,
                      "list instead the pipelines and networks at and below this folder, or of ORG/NAME in the Hugging "
                      "Face cache, with their passes");
  command->add_flag("--json", arguments->as_json, "machine-readable output");
  command->footer(
      fmt::format("Example: headroom models\n"
                  "         headroom models {}",
                  examples::kFolder));
  command->callback([arguments] {
    arguments->folder.empty() ? list_models(arguments->as_json) : list_models_in(arguments->folder, arguments->as_json);
  });
}

}  // namespace headroom
