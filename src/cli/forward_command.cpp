#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/auto.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/output_name.hpp"
#include "io/safetensors.hpp"
#include "run/fit.hpp"
#include "run/session.hpp"

namespace headroom {
namespace {

struct Arguments {
  ModelArguments model;
  SwitchArguments switches;
  std::string inputs;
  std::string output;
};

/// The request's sizes, read off the tensors themselves.
FluxShape shape_of(const SafetensorsFile& file, const std::string& path) {
  const auto require_rank = [&](const char* name, int rank) {
    if (!file.has(name)) fail("{}: no tensor '{}', which a forward pass needs", path, name);
    const Shape& shape = file.entry(name).shape;
    if (shape.rank() != rank) fail("{}: '{}' is {}, expected {} dimensions", path, name, shape, rank);
    for (const std::int64_t extent : shape.dims())
      if (extent < 1) fail("{}: '{}' is {}, expected no empty dimension", path, name, shape);
    return shape;
  };
  const Shape image = require_rank("hidden_states", 3);
  const Shape text = require_rank("encoder_hidden_states", 3);
  return {.batch = image[0], .image_tokens = image[1], .text_tokens = text[1]};
}

void forward(const Arguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = SwitchRequest::parse(arguments.switches.list);
  check_writable(arguments.output);
  const SafetensorsFile file = SafetensorsFile::open(arguments.inputs);
  const Engine engine = open_engine(arguments.model);
  const FluxShape shape = shape_of(file, arguments.inputs);
  const SwitchSet switches =
      choose_switches(asked, arguments.switches, engine, {.denoise = {}, .forward = shape}, log).set;
  const Compiled compiled = compile_forward(*engine.model, shape, switches, engine.backend->properties().target);
  report_declined(log, compiled.declined);
  const Graph& graph = compiled.program->graph;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const std::string& name = graph.value(input).name;
    if (!file.has(name)) fail("{}: no tensor '{}', which a forward pass of this model needs", arguments.inputs, name);
  }
  for (const auto& [name, entry] : file.entries())
    if (graph.find(ValueKind::kInput, name) == kNoValue)
      log.info("{}: '{}' is not an input of this model and is not used", arguments.inputs, name);

  require_forward_fit(compiled, *engine.model, shape, {.images = shape.batch}, switches, *engine.weights,
                      *engine.backend);
  Session session(compiled.program, *engine.weights, *engine.backend);
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const std::string& name = graph.value(input).name;
    session.set_input(name, convert(file.read(name), graph.type(input).dtype));
  }
  session.run();
  write_safetensors(arguments.output, {{"sample", session.output("sample")}});
  log.info("wrote sample {} to {}", session.output("sample").shape(), arguments.output);
}

}  // namespace

void add_forward_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("forward", "one forward pass on given tensors, to check numbers");
  const auto arguments = std::make_shared<Arguments>();
  add_model_arguments(*command, arguments->model);
  add_auto_switches(*command, arguments->switches, "baseline");
  command
      ->add_option("--inputs", arguments->inputs,
                   "safetensors with hidden_states, encoder_hidden_states, pooled_projections, timestep in [0, 1], "
                   "img_ids, txt_ids and, where the model "
                   "embeds it, guidance")
      ->required()
      ->type_name("FILE");
  command->add_option("--output", arguments->output, "safetensors to write `sample` to")
      ->check(written_as({".safetensors"}))
      ->required()
      ->type_name("FILE");
  command->footer(
      "Example: headroom forward models/fashion-flux --inputs in.safetensors --output out.safetensors --opt fuse");
  command->callback([arguments] { forward(*arguments); });
}

}  // namespace headroom
