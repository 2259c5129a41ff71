#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "run/component.hpp"
#include "text/tokenizer.hpp"

namespace headroom {

/// A part that a class of pipelines needs.
struct PartNeed {
  std::string_view role;  ///< "text_encoder"
  std::string_view
      class_name;  ///< "CLIPTextModel"; several that do are in one text, "AutoencoderKL or AutoencoderTiny"
  /// Of the scheduler of a pipeline that is made from its configuration: that configuration, in JSON, where a source
  /// has none.
  std::string_view by_default = {};
};

/// The parts of a pipeline by their roles. A folder in diffusers' layout is one source, a file with several networks is
/// another; single parts given by the user replace or complete those of a source.
class PartsSource {
 public:
  virtual ~PartsSource() = default;

  /// Its path, in messages.
  [[nodiscard]] virtual std::string place() const = 0;
  /// The name of the model.
  [[nodiscard]] virtual std::string name() const = 0;
  /// The class of the pipeline: "FluxPipeline"
  [[nodiscard]] virtual std::string class_name() const = 0;
  /// The folder of the pipeline's own files, such as generation_config.json; empty if there is none.
  [[nodiscard]] virtual std::filesystem::path folder() const { return {}; }
  /// A flag of the pipeline. Throws Error if it is not true or false.
  [[nodiscard]] virtual bool flag(std::string_view key, bool fallback) const = 0;

  [[nodiscard]] virtual bool has(std::string_view role) const = 0;
  /// The class of a part; empty if there is none, or if its source does not say.
  [[nodiscard]] virtual std::string class_of(std::string_view role) const = 0;
  /// The repository that a source names for a part which is not in it; empty if it names none.
  [[nodiscard]] virtual std::string repository_of(std::string_view /*role*/) const { return {}; }
  /// The functions below throw Error if the part is missing or broken. A network's `part` is its role.
  [[nodiscard]] virtual Component open_network(std::string_view role) const = 0;
  /// The folder of a tokenizer, or a GGUF file that has it.
  [[nodiscard]] virtual std::filesystem::path tokenizer_path(std::string_view role) const = 0;
  /// The content of a scheduler_config.json.
  [[nodiscard]] virtual nlohmann::json scheduler() const = 0;
};

/// Whether the folder is that of a pipeline in diffusers' layout: it has a model_index.json, which names the class of
/// the pipeline, and for each part its library and class: {"vae": ["diffusers", "AutoencoderKL"]}. Each part is in a
/// subfolder of its name. A part that the pipeline does without is [null, null]. A modular pipeline has a
/// modular_model_index.json instead, in which a third element of a part names its repository, which may be another one.
[[nodiscard]] bool is_pipeline_folder(const std::filesystem::path& folder);
/// The parts of such a folder. Throws Error if the file is missing or invalid.
[[nodiscard]] std::unique_ptr<PartsSource> open_parts_folder(const std::filesystem::path& folder,
                                                             const OpenOptions& options = {});
/// The parts of what open_component() opens: the networks of a file, or a denoiser alone, whose pipeline has the class
/// that `class_of` names for it. Null if no network is a denoiser of a pipeline.
[[nodiscard]] std::unique_ptr<PartsSource> open_parts_of_networks(
    const std::string& name_or_path, const OpenOptions& options,
    const std::function<std::string(const Component& denoiser)>& class_of);

/// The same parts with those of `options` in place of the source's.
[[nodiscard]] std::unique_ptr<PartsSource> with_given_parts(std::unique_ptr<PartsSource> source,
                                                            const OpenOptions& options,
                                                            std::span<const PartNeed> needs);

/// Throws an Error that names all missing parts, each with its class and the option that gives it, and those of another
/// class.
void require_parts(const PartsSource& source, std::span<const PartNeed> needs);

}  // namespace headroom
