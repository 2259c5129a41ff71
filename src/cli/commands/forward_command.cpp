#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "cli/commands/auto.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "io/safetensors.hpp"
#include "models/config.hpp"
#include "pipelines/examples.hpp"
#include "run/forward_pass.hpp"
#include "run/session/session.hpp"

namespace headroom {
namespace {

struct ForwardArguments {
  ModelArguments model;
  SwitchArguments switches;
  std::string pass;  ///< empty: the first pass whose inputs are given
  std::string inputs;
  std::string out;
};

/// The pass for the inputs in the file, applied to them.
ForwardPass pass_over(const SafetensorsFile& file, const ForwardArguments& arguments, const Component& network) {
  InputShapes given;
  for (const auto& [name, entry] : file.entries()) given.emplace(name, entry.shape);
  // a tensor that is needed but cannot be read is an error
  for (const auto& [name, tensor] : file.unread()) given.emplace(name, tensor.shape);
  const auto in_file = [&](const auto& body) { return config::read_in(arguments.inputs, body); };
  const ComponentPass& pass = arguments.pass.empty() ? *in_file([&] { return &pass_for(*network.kind, given); })
                                                     : pass_named(*network.kind, arguments.pass);
  const Graph graph = in_file([&] { return network.build(pass, given); });
  for (const ValueId input : graph.values_of(ValueKind::kInput))
    if (const std::string& name = graph.value(input).name; !file.has(name))
      fail("{}: no tensor '{}', which {} needs", arguments.inputs, name, pass.name);
  return make_forward_pass(network, pass, std::move(given), [&file](Session& session) {
    const Graph& compiled = session.program().graph;
    for (const ValueId input : compiled.values_of(ValueKind::kInput)) {
      const std::string& name = compiled.value(input).name;
      session.set_input(name, convert(file.read(name), compiled.type(input).dtype));
    }
  });
}

void forward(const ForwardArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  OutFile out(arguments.out);
  const SafetensorsFile file = SafetensorsFile::open(arguments.inputs);
  const Engine engine = open_network(arguments.model);
  Backend& backend = *engine.backend;
  const ForwardPass pass = pass_over(file, arguments, engine.network());
  const SwitchSet switches =
      choose_switches(asked, arguments.switches, backend, {.forward = pass, .denoise = {}}, log).set;
  const Compiled compiled = compile(pass, switches, backend.properties().target);
  WithoutEffect(log, arguments.switches).say(compiled.declined);
  const Graph& graph = compiled.program->graph;
  for (const auto& [name, entry] : file.entries())
    if (graph.find(ValueKind::kInput, name) == kNoValue)
      log.info("{}: '{}' is not an input of the pass {} and is not used", arguments.inputs, name,
               pass.request.at("pass").get<std::string>());
  for (const auto& [name, tensor] : file.unread())
    log.info("{}: '{}' is {}, which is not read, and is not used", arguments.inputs, name, tensor.dtype);

  require_fit(compiled, pass, switches, *engine.weights, backend);
  Session session(compiled.program, *engine.weights, backend);
  pass.set_inputs(session);
  session.run();
  std::map<std::string, HostTensor> outputs;
  for (const Output& output : graph.outputs()) outputs.emplace(output.name, session.output(output.name));
  write_safetensors(out.path(), outputs);
  out.finish();
  const std::string place = is_standard_output(arguments.out) ? "standard output" : arguments.out;
  for (const auto& [name, tensor] : outputs) log.info("wrote {} {} to {}", name, tensor.shape(), place);
}

}  // namespace

void add_forward_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("forward", "run one forward pass on given tensors, to check numerical results");
  const auto arguments = std::make_shared<ForwardArguments>();
  add_model_arguments(*command, arguments->model);
  add_lora_option(*command, arguments->model.loras);
  add_auto_switches(*command, arguments->switches, "baseline");
  command
      ->add_option(
          "--inputs", arguments->inputs,
          "safetensors file with the inputs. Transformer: hidden_states, encoder_hidden_states, pooled_projections, "
          "timestep in [0, 1], img_ids, txt_ids and, if the model embeds it, guidance. U-Net: sample, timestep and, if "
          "texts condition it, encoder_hidden_states. AutoencoderKL: latents, or image in [-1, 1]. Text encoder: "
          "input_ids and, with padding, attention_mask")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--out", arguments->out,
                   "safetensors file for the outputs: sample; out_sample; decoded; mean and logvar; last_hidden_state, "
                   "...; - for "
                   "standard output")
      ->check(written_as({".safetensors"}, Dash::kTaken))
      ->required()
      ->type_name("FILE");
  command->add_option("--pass", arguments->pass,
                      "pass to run if several have the same inputs: decode, decode-tiled, ...");
  command->footer(
      fmt::format("Example: headroom forward {} --inputs in.safetensors --out out.safetensors --opt fuse\n"
                  "         headroom forward {}/vae --inputs latents.safetensors --out image.safetensors",
                  examples::kShipped, examples::kFolder));
  command->callback([arguments] { forward(*arguments); });
}

}  // namespace headroom
