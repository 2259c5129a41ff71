#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/output.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/inspect_output.hpp"
#include "cli/number.hpp"
#include "cli/table_output.hpp"
#include "io/weights_listing.hpp"

namespace headroom {
namespace {

struct InspectArguments {
  std::string path;
  std::size_t largest = 10;
  bool as_json = false;
};

void inspect(const InspectArguments& arguments) {
  const WeightsListing listing = list_weights(arguments.path);
  if (arguments.as_json)
    print_out("{}\n", dump_json(inspect_json(listing, arguments.largest), 2));
  else
    print_tables(inspect_tables(listing, arguments.largest));
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "show the contents of a file or folder of weights");
  const auto arguments = std::make_shared<InspectArguments>();
  command
      ->add_option("PATH", arguments->path,
                   "safetensors or GGUF file, index of shards, or folder with one of them; only headers are read")
      ->required();
  command->add_option("--largest", arguments->largest, "number of the largest tensors to list")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  command->add_flag("--json", arguments->as_json, "machine-readable output");
  command->footer(
      "Examples: headroom inspect flux1-dev-Q4_K_S.gguf\n"
      "          headroom inspect FLUX.1-dev/transformer --largest 3\n"
      "          headroom inspect sd_xl_base_1.0.safetensors --json");
  command->callback([arguments] { inspect(*arguments); });
}

}  // namespace headroom
