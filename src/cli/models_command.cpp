#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "cli/commands.hpp"
#include "measure/table.hpp"
#include "run/model.hpp"

namespace headroom {
namespace {

void list_models(bool as_json) {
  const std::vector<ShippedModel> models = list_shipped_models();
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const ShippedModel& model : models)
      list.push_back({{"name", model.name}, {"parameters", model.parameters}, {"description", model.description}, {"folder", model.folder.string()}});
    fmt::print("{}\n", dump_json(list, 2));
    return;
  }
  Table table;
  table.add_column("model", Align::kLeft);
  table.add_column("parameters");
  table.add_column("what it is", Align::kLeft);
  for (const ShippedModel& model : models)
    table.add_row({model.name, fmt::format("{:.2f} M", static_cast<double>(model.parameters) / 1e6), model.description});
  fmt::print("{}", table.render());
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
