#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "backends/device.hpp"
#include "base/log.hpp"
#include "base/switches.hpp"
#include "base/target.hpp"
#include "cli/without_effect.hpp"
#include "measure/work/opened_model.hpp"
#include "passes/pass.hpp"
#include "pipelines/generator.hpp"
#include "run/component.hpp"
#include "run/weights/lora.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// Arguments that every command on a model takes.
struct ModelArguments {
  std::string model;
  std::optional<std::uint64_t> random_weights;
  std::string random_format = {};  ///< of their matrices; empty: bf16
  std::string device = "auto";     ///< for find_device()
  std::string baseline;            ///< "fp32" or "bf16"; empty: fp32 on a CPU, the checkpoint's dtype on a GPU
  int threads = 0;                 ///< 0: all CPUs of the affinity mask
  std::string cpu_isa;             ///< the widest vector units to use; empty: all of the CPU
  bool quiet = false;
  std::string variant = {};              ///< of weights in folders: "fp16"
  std::vector<std::string> parts = {};   ///< "ROLE=PATH"
  std::vector<std::string> config = {};  ///< "KEY=VALUE"
  std::vector<std::string> loras = {};   ///< "FILE:WEIGHT", added to the weights when the network is opened
};
void add_model_arguments(CLI::App& command, ModelArguments& arguments);
/// Adds those that are also for commands which only look at a model: --part, --config and --variant.
void add_parts_arguments(CLI::App& command, ModelArguments& arguments);
/// How the arguments open the model. Throws a usage Error for parts and values that are not of their form.
[[nodiscard]] OpenOptions open_options(const ModelArguments& arguments);
/// Adds those that open_backend() reads, and --quiet.
void add_device_arguments(CLI::App& command, ModelArguments& arguments);
/// Adds --lora, which may be given several times.
void add_lora_option(CLI::App& command, std::vector<std::string>& loras);

/// Adds --token-rows, --token-columns, --text-tokens, --height and --width; resolve_size() applies the last two to
/// the request.
void add_size_options(CLI::App& command, RequestOptions& request, ImageSize& size);
/// Adds --steps, 0 unless given. Its help begins with `what`.
void add_steps_option(CLI::App& command, std::int64_t& steps, const std::string& what);
void add_guidance_option(CLI::App& command, std::optional<double>& guidance);
void add_true_cfg_option(CLI::App& command, std::optional<double>& scale);

/// Adds --pass, which names one pass of a network.
void add_pass_option(CLI::App& command, std::string& pass);

/// Adds --batch, --steps and the options of add_size_options().
void add_request_options(CLI::App& command, RequestOptions& request, ImageSize& size);

/// Adds --search: how new work is handled after the first plan of a process.
void add_search_option(CLI::App& command, NewWork& after_the_first);

/// Adds --opt, which SwitchSet::parse() parses, and --strict. add_auto_switches() adds it for commands that also take
/// the preset `auto`.
void add_switches(CLI::App& command, SwitchList& switches, std::string_view fallback, bool takes_auto = false);
void add_strict_option(CLI::App& command, SwitchList& switches);

/// Opens the device that the arguments name. Throws Error if there is no such device.
[[nodiscard]] std::unique_ptr<Backend> open_backend(const ModelArguments& arguments);
/// Logs a note that names the device.
void tell_device(const Log& log, const Backend& backend);

/// `--device` for a separate process: "cpu", "cuda", "cuda:1".
[[nodiscard]] std::string device_argument(const Device& device);

/// A network on a device, with the weights folded so far.
struct Engine : OpenedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<WeightStore> weights;
  std::filesystem::path folder;  ///< of a whole pipeline; empty for a single network
};
/// Opens any network. A note names the device. Throws Error if the device or the network does not exist.
[[nodiscard]] Engine open_network(const ModelArguments& arguments);
/// The same for a pipeline; throws a usage Error if the network is not a denoiser.
[[nodiscard]] Engine open_engine(const ModelArguments& arguments);

/// The LoRA files of the options, in order. Throws a usage Error for a weight that is not a number.
[[nodiscard]] std::vector<LoraUse> parse_loras(std::span<const std::string> loras);

/// Logs the notes of passes about the whole program, such as the schedule of a step cache, one line each.
void report_notes(const Log& log, const Compiled& compiled);
/// Logs the reason why `graph` cannot replay a session, which has run, as a whole.
void report_replay_obstacle(const Log& log, const Session& session);

}  // namespace headroom
