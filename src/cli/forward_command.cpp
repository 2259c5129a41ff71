#include <map>
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
  std::string pass;  ///< of a component; empty: the first whose inputs there are
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

/// The pass whose inputs the file holds, and the switches for it.
struct AskedPass {
  Graph graph;
  DType baseline;
  SwitchSet switches;
};

AskedPass ask_model(const Arguments& arguments, const Engine& engine, const SafetensorsFile& file, const Log& log) {
  const FluxShape shape = shape_of(file, arguments.inputs);
  const SwitchRequest asked = SwitchRequest::parse(arguments.switches.list);
  return {.graph = build_flux_forward(engine.model->config, shape, engine.model->params()),
          .baseline = engine.model->baseline,
          .switches = choose_switches(asked, arguments.switches, engine, {.denoise = {}, .forward = shape}, log).set};
}

AskedPass ask_component(const Arguments& arguments, const Engine& engine, const SafetensorsFile& file, const Log& log) {
  const Component& component = *engine.component;
  InputShapes given;
  for (const auto& [name, entry] : file.entries()) given.emplace(name, entry.shape);
  const ComponentPass& pass =
      arguments.pass.empty() ? pass_for(*component.kind, given) : pass_named(*component.kind, arguments.pass);
  for (const std::string_view name : pass.inputs)
    if (!file.has(name)) fail("{}: no tensor '{}', which {} needs", arguments.inputs, name, pass.name);
  const SwitchRequest asked = SwitchRequest::parse(arguments.switches.list);
  return {.graph = component.build(pass, given),
          .baseline = component.baseline,
          .switches = choose_switches(asked, arguments.switches, engine, {}, log).set};
}

void forward(const Arguments& arguments) {
  const Log log(arguments.model.quiet);
  static_cast<void>(SwitchRequest::parse(arguments.switches.list));  // a wrong name is told before anything is opened
  check_writable(arguments.output);
  const SafetensorsFile file = SafetensorsFile::open(arguments.inputs);
  const Engine engine = open_any_engine(arguments.model);
  const AskedPass pass =
      engine.component ? ask_component(arguments, engine, file, log) : ask_model(arguments, engine, file, log);
  const auto compile_with = [&](const SwitchSet& switches, const RequestSize& /*given by the tensors*/) {
    return compile(pass.graph, switches, engine.backend->properties().target, {.baseline = pass.baseline});
  };
  const Compiled compiled = compile_with(pass.switches, {});
  report_declined(log, compiled.declined);
  const Graph& graph = compiled.program->graph;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const std::string& name = graph.value(input).name;
    if (!file.has(name)) fail("{}: no tensor '{}', which a forward pass of this model needs", arguments.inputs, name);
  }
  for (const auto& [name, entry] : file.entries())
    if (graph.find(ValueKind::kInput, name) == kNoValue)
      log.info("{}: '{}' is not an input of this model and is not used", arguments.inputs, name);

  require_fit(*compiled.program,
              {.model = arguments.model.model, .switches = pass.switches, .size = {}, .compile = compile_with},
              *engine.weights, *engine.backend);
  Session session(compiled.program, *engine.weights, *engine.backend);
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const std::string& name = graph.value(input).name;
    session.set_input(name, convert(file.read(name), graph.type(input).dtype));
  }
  session.run();
  std::map<std::string, HostTensor> outputs;
  for (const Output& output : graph.outputs()) outputs.emplace(output.name, session.output(output.name));
  write_safetensors(arguments.output, outputs);
  for (const auto& [name, tensor] : outputs) log.info("wrote {} {} to {}", name, tensor.shape(), arguments.output);
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
                   "embeds it, guidance; of an AutoencoderKL with latents, or image in [-1, 1]")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--output", arguments->output,
                   "safetensors to write what it gives to: sample; decoded; mean and logvar")
      ->check(written_as({".safetensors"}))
      ->required()
      ->type_name("FILE");
  command->add_option("--pass", arguments->pass,
                      "of a component with several for the same inputs, which one: decode, decode-tiled, ...");
  command->footer(
      "Example: headroom forward models/fashion-flux --inputs in.safetensors --output out.safetensors --opt fuse\n"
      "         headroom forward FLUX.1-dev/vae --inputs latents.safetensors --output image.safetensors");
  command->callback([arguments] { forward(*arguments); });
}

}  // namespace headroom
