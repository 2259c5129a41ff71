#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/output.hpp"
#include "cli/commands.hpp"
#include "measure/table.hpp"
#include "run/model.hpp"

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
  table.add_column("model", Align::kLeft);
  table.add_column("parameters");
  table.add_column("what it is", Align::kLeft);
  for (const ShippedModel& model : models)
    table.add_row({model.name, format_parameters(model.parameters), model.description});
  print_out("{}", table.render());
}

}  // namespace

void add_models_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("models", "what can be run, with parameter counts");
  const auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "machine-readable output");
  command->footer("Example: headroom models");
  command->callback([as_json] { list_models(*as_json); });
}

}  // namespace headroom
