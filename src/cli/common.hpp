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
  std::string device = "auto";  ///< for find_device()
  std::string baseline;         ///< "fp32" or "bf16"; empty: fp32 on a CPU, the checkpoint's own on a GPU
  int threads = 0;              ///< 0: all that the affinity mask allows
  std::string cpu_isa;          ///< the widest vector units to use; empty: all that the CPU has
  bool quiet = false;
  std::vector<std::string> loras = {};  ///< "FILE:WEIGHT", that the network is opened with
};
void add_model_arguments(CLI::App& command, ModelArguments& arguments);
/// Adds --lora, which may be given several times.
void add_lora_option(CLI::App& command, std::vector<std::string>& loras);

/// Adds --token-rows, --token-columns, --text-tokens, --height and --width; resolve_size() brings the last two into the
/// request.
void add_size_options(CLI::App& command, RequestOptions& request, ImageSize& size);
/// Throws a usage Error for pixels that do not divide into the denoiser's tokens.
void resolve_size(const Pipeline& pipeline, const ImageSize& size, RequestOptions& request);

/// Adds --steps, which are 0 unless given; `what` they are is the beginning of its help.
void add_steps_option(CLI::App& command, std::int64_t& steps, const std::string& what);
void add_guidance_option(CLI::App& command, std::optional<double>& guidance);
void add_true_cfg_option(CLI::App& command, std::optional<double>& scale);

/// Adds --batch, --steps and those of add_size_options().
void add_request_options(CLI::App& command, RequestOptions& request, ImageSize& size);

/// Adds --search: what is done about work that is new after the first plan of a process.
void add_search_option(CLI::App& command, NewWork& after_the_first);

/// Adds --opt, whose text SwitchSet::parse() reads, and --strict.
void add_switches(CLI::App& command, SwitchList& switches, std::string_view fallback);
void add_strict_option(CLI::App& command, SwitchList& switches);

/// The device that the arguments name, opened. Throws Error where it is not there.
[[nodiscard]] std::unique_ptr<Backend> open_backend(const ModelArguments& arguments);
/// A note that says which device it is.
void tell_device(const Log& log, const Backend& backend);

/// `--device` for a process of its own: "cpu", "cuda", "cuda:1".
[[nodiscard]] std::string device_argument(const Device& device);

/// A network on a device, with the weights folded so far.
struct Engine {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Pipeline> pipeline;    ///< where the network is a denoiser
  std::unique_ptr<Component> component;  ///< where it is not
  std::unique_ptr<WeightStore> weights;
  std::filesystem::path folder;  ///< of a whole pipeline; empty where the network is alone

  [[nodiscard]] const Component& network() const { return pipeline ? pipeline->denoiser() : *component; }
  [[nodiscard]] std::span<const Component> components() const {
    return pipeline ? pipeline->components() : std::span<const Component>(component.get(), 1);
  }
};
/// Of any network. A note says which device it is. Throws Error where the device or the network is not there.
[[nodiscard]] Engine open_network(const ModelArguments& arguments);
/// The same of a pipeline; throws a usage Error where the network is no denoiser.
[[nodiscard]] Engine open_engine(const ModelArguments& arguments);

/// The LoRA files of options, in order. Throws a usage Error for a weight that is no number.
[[nodiscard]] std::vector<LoraUse> parse_loras(std::span<const std::string> loras);

/// Says what passes note of the whole, as which schedule a step cache has, one line each.
void report_notes(const Log& log, const Compiled& compiled);
/// Says what kept `graph` from replaying a session, which has run, as a whole.
void report_replay_obstacle(const Log& log, const Session& session);

}  // namespace headroom
