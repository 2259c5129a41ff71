#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/tensors/pack_blocks.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/output_name.hpp"
#include "io/weights_files.hpp"
#include "measure/tables/table.hpp"
#include "pipelines/examples.hpp"
#include "run/convert.hpp"
#include "run/export_model.hpp"

namespace headroom {
namespace {

struct ConvertArguments {
  ModelArguments model;
  SwitchList switches;
  std::string out;
  std::string gguf;  ///< a block format; empty: no GGUF file is written
  bool as_json = false;
};

/// Reports an output whose name is that of another kind.
void check_out(const ConvertArguments& arguments, const CLI::Validator& valid) {
  std::string name = arguments.out;
  if (const std::string refusal = valid(name); !refusal.empty()) fail_usage("--out {}", refusal);
}

bool is_single_file(const std::string& model) { return is_there(model) && !is_folder(model); }

/// Counts tensors on the terminal, and ends an interrupted conversion.
class ConvertProgress {
 public:
  ConvertProgress(std::size_t tensors, bool quiet)
      : progress_("converting", static_cast<std::int64_t>(tensors), quiet) {}
  void operator()(std::size_t /*done*/, std::size_t /*total*/) {
    Interruptible::check();
    progress_.advance();
  }

 private:
  Progress progress_;
};

/// A single file as a folder in diffusers' layout.
void write_folder(const ConvertArguments& arguments) {
  check_out(arguments, folder_name());
  if (arguments.model.random_weights) fail_usage("convert: random weights are no file to convert");
  const OpenOptions options = open_options(arguments.model);
  refuse_variant(options, arguments.model.model);
  for (const auto& [role, path] : options.parts)
    if (!role.starts_with("tokenizer"))
      fail_usage("--part {}: only tokenizers are copied into the folder of a single file", role);
  const SingleFile file = SingleFile::open(arguments.model.model);
  ConvertProgress progress(count_tensors(file, options), arguments.model.quiet);
  const Interruptible until_written;
  const ExportedFolder made = export_folder(file, options, arguments.out, std::ref(progress));
  if (arguments.as_json)
    print_out("{}\n", dump_json({{"out", arguments.out}, {"bytes", made.bytes}, {"parts", made.parts}}, 2));
  else
    print_out("wrote {}: {}, {} of tensors\n", arguments.out, fmt::join(made.parts, ", "), format_bytes(made.bytes));
}

void write_gguf(const ConvertArguments& arguments) {
  check_out(arguments, written_as({".gguf"}));
  const BlockFormat* const format = find_block_format(arguments.gguf);
  if (format == nullptr || !can_pack(*format))
    fail_usage("--gguf is '{}', expected one of Q8_0, Q4_0, Q4_K, Q6_K", arguments.gguf);
  const OpenOptions options = open_options(arguments.model);
  const Component component = open_component(arguments.model.model, options);
  std::optional<SingleFile> file;
  if (is_single_file(arguments.model.model) && !arguments.model.random_weights)
    file = SingleFile::open(arguments.model.model);
  ConvertProgress progress(component.checkpoint.tensors().size(), arguments.model.quiet);
  const Interruptible until_written;
  const ExportedGguf made = export_gguf(component, file ? &*file : nullptr, *format, arguments.out, std::ref(progress));
  if (arguments.as_json) {
    print_out("{}\n", dump_json({{"out", arguments.out},
                                 {"bytes", made.bytes},
                                 {"tensors", made.tensors},
                                 {"packed", made.packed},
                                 {"lossy", made.lossy}},
                                2));
    return;
  }
  print_out("wrote {}: {} of {}, {} of them in blocks\n", arguments.out, format_bytes(made.bytes),
            format_count(static_cast<std::int64_t>(made.tensors), "tensor"), made.packed);
  if (!made.lossy.empty())
    print_out("{} of numbers too small for the scales of {}, which are f16: {}\n",
              format_count(std::ssize(made.lossy), "tensor") + (made.lossy.size() == 1 ? " loses some" : " lose some"),
              arguments.gguf, join_some(made.lossy));
}

void convert(const ConvertArguments& arguments) {
  if (!arguments.gguf.empty()) {
    if (arguments.switches.is_given) fail_usage("--opt would change nothing: --gguf writes weights in blocks");
    write_gguf(arguments);
    return;
  }
  if (is_single_file(arguments.model.model) && !arguments.switches.is_given) {
    write_folder(arguments);
    return;
  }
  check_out(arguments, folder_name());
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
      "wrote {}: {} of tensors, {:.3f} of {} in f32; {} int8, {} more only {} in it\n", arguments.out,
      format_bytes(made.bytes), ratio, format_bytes(made.fp32_bytes),
      format_count(std::ssize(made.computed), "module") + (made.computed.size() == 1 ? " computes in" : " compute in"),
      made.stored.size(), made.stored.size() == 1 ? "keeps its weights" : "keep their weights");
}

}  // namespace

void add_convert_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "convert", "write a quantized checkpoint as a complete model folder, a single file as a folder, or GGUF");
  const auto arguments = std::make_shared<ConvertArguments>();
  add_model_arguments(*command, arguments->model);
  add_switches(*command, arguments->switches, "int8");
  command->add_option("--out", arguments->out, "folder to write, which must not exist yet, or with --gguf the file")
      ->required()
      ->type_name("PATH");
  command
      ->add_option("--gguf", arguments->gguf,
                   "write the network as a GGUF file, its matrices in blocks: Q8_0, Q6_K, Q4_K or Q4_0")
      ->type_name("FORMAT");
  command->add_flag("--json", arguments->as_json, "machine-readable summary");
  command->footer(fmt::format(
      "Only int8 changes a checkpoint; with bf16, the weights that int8 leaves become bf16. A single file without "
      "--opt "
      "becomes a folder in diffusers' layout.\nExamples: headroom "
      "convert {} --opt int8 --out fashion-int8\n          headroom run fashion-int8 --opt fuse,int8 --out images.png\n"
      "          headroom convert sd_xl_base_1.0.safetensors --out sdxl\n"
      "          headroom convert FLUX.1-dev/transformer --gguf Q4_K --out flux1-dev-Q4_K.gguf",
      examples::kShipped));
  command->callback([arguments] { convert(*arguments); });
}

}  // namespace headroom
