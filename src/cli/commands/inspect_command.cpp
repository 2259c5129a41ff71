#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/inspect/inspect_output.hpp"
#include "cli/inspect/inspect_single_file.hpp"
#include "cli/number.hpp"
#include "cli/table_output.hpp"
#include "io/checkpoint.hpp"
#include "io/weights_listing.hpp"

namespace headroom {
namespace {

struct InspectArguments {
  std::string path;
  std::size_t largest = 10;
  bool as_json = false;
};

/// The networks of a pipeline's folder.
void inspect_parts(const InspectArguments& arguments, const std::map<std::string, WeightsListing>& parts) {
  if (!arguments.as_json) {
    print_tables(parts_tables(parts));
    return;
  }
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [part, listing] : parts) json[part] = inspect_json(listing, arguments.largest);
  print_out("{}\n", dump_json({{"parts", std::move(json)}}, 2));
}

void inspect(const InspectArguments& arguments) {
  if (is_folder(arguments.path) && !has_weights(arguments.path)) {
    std::map<std::string, WeightsListing> parts;
    for (const std::filesystem::path& path : list_folder(arguments.path))
      if (is_folder(path) && has_weights(path)) parts.emplace(path.filename().string(), list_weights(path));
    if (!parts.empty()) {
      inspect_parts(arguments, parts);
      return;
    }
  }
  const WeightsListing listing = list_weights(arguments.path);
  const FileReport report = is_folder(arguments.path) ? FileReport{} : report_single_file(arguments.path, listing);
  if (arguments.as_json)
    print_out("{}\n", dump_json(inspect_json(listing, arguments.largest, report), 2));
  else
    print_tables(inspect_tables(listing, arguments.largest, report));
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "show the contents of a file or folder of weights");
  const auto arguments = std::make_shared<InspectArguments>();
  command
      ->add_option(
          "PATH", arguments->path,
          "safetensors or GGUF file, index of shards, folder with one of them, or folder of a pipeline; only headers "
          "are read")
      ->required();
  command->add_option("--largest", arguments->largest, "number of the largest tensors to list")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  command->add_flag("--json", arguments->as_json, "machine-readable output");
  command->footer(
      "Examples: headroom inspect flux1-dev-Q4_K_S.gguf\n"
      "          headroom inspect FLUX.1-dev\n"
      "          headroom inspect FLUX.1-dev/transformer --largest 3\n"
      "          headroom inspect sd_xl_base_1.0.safetensors --json");
  command->callback([arguments] { inspect(*arguments); });
}

}  // namespace headroom
