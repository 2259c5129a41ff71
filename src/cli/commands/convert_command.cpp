#include <memory>
#include <nlohmann/json.hpp>

#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/output_name.hpp"
#include "measure/tables/table.hpp"
#include "pipelines/examples.hpp"
#include "run/convert.hpp"

namespace headroom {
namespace {

struct ConvertArguments {
  ModelArguments model;
  SwitchList switches;
  std::string out;
  bool as_json = false;
};

void convert(const ConvertArguments& arguments) {
  const SwitchSet switches = SwitchSet::parse(arguments.switches.list);
  ModelArguments on_cpu = arguments.model;
  if (on_cpu.device == "auto") on_cpu.device = "cpu";  // only the CPU quantizes to int8
  const Engine engine = open_network(on_cpu);
  const Component& component = engine.network();
  Progress progress("converting", std::ssize(component.checkpoint.tensors()), arguments.model.quiet);
  const Interruptible until_written;  // on an interruption, removes the partial folder before the program ends
  const Conversion made = convert_checkpoint(component, *engine.backend, switches, arguments.out, engine.folder,
                                             [&](std::size_t, std::size_t) {
                                               Interruptible::check();
                                               progress.advance();
                                             });
  const double ratio = static_cast<double>(made.bytes) / static_cast<double>(made.fp32_bytes);
  if (arguments.as_json) {
    const nlohmann::json summary = {{"out", arguments.out},          {"bytes", made.bytes},
                                    {"fp32_bytes", made.fp32_bytes}, {"ratio", ratio},
                                    {"computed", made.computed},     {"stored", made.stored}};
    print_out("{}\n", dump_json(summary, 2));
    return;
  }
  print_out(
      "wrote {}: {} of tensors, {:.3f} of {} in f32; {} modules compute in int8, {} more only keep their weights in "
      "it\n",
      arguments.out, format_bytes(made.bytes), ratio, format_bytes(made.fp32_bytes), made.computed.size(),
      made.stored.size());
}

}  // namespace

void add_convert_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert", "write a quantized checkpoint as a complete model folder");
  const auto arguments = std::make_shared<ConvertArguments>();
  add_model_arguments(*command, arguments->model);
  add_switches(*command, arguments->switches, "int8");
  command->add_option("--out", arguments->out, "folder to write; it must not exist yet")
      ->check(folder_name())
      ->required()
      ->type_name("DIR");
  command->add_flag("--json", arguments->as_json, "machine-readable summary");
  command->footer(fmt::format(
      "Only int8 changes a checkpoint; with bf16, the weights that int8 leaves become bf16.\nExamples: headroom "
      "convert {} --opt int8 --out fashion-int8\n          headroom run fashion-int8 --opt fuse,int8 --out images.png",
      examples::kShipped));
  command->callback([arguments] { convert(*arguments); });
}

}  // namespace headroom
