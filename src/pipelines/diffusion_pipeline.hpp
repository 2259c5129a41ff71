#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/autoencoders/autoencoder.hpp"
#include "pipelines/pipeline.hpp"
#include "pipelines/pipeline_parts.hpp"
#include "pipelines/schedules/scheduler.hpp"
#include "pipelines/stages/denoise_loop.hpp"
#include "pipelines/stages/image_coding.hpp"

namespace headroom {

/// What a kind of them says of itself, once.
struct DiffusionKind {
  std::string_view loop;  ///< what the graph of its loop is called: "flux_denoise"
  LatentForm form = LatentForm::kImage;
  std::int64_t channels = 0;     ///< of a token
  std::int64_t max_prompt = 77;  ///< tokens of a prompt that its encoders can read
  double timestep_unit = 1;      ///< steps of training: its denoiser is given timesteps as multiples of that
  ImageUse image_use = ImageUse::kNone;
  bool embeds_guidance = false;      ///< guidance_scale is an input of the denoiser
  bool is_guided_by_passes = false;  ///< guidance_scale is that of classifier-free guidance, which is off up to 1
  bool vae_overflows_f16 = false;    ///< its autoencoder is known to make numbers that f16 has not
};

/// Noise becomes latents in a loop of passes of a denoiser, which reads what text encoders make of prompts; an autoencoder, where there is
/// one, makes pixels of them, and latents of images. A denoiser alone runs on random prompts, and makes latents. What is here is the same
/// for all of them; a kind says which network it is, what that is given, and what its field's defaults are.
class DiffusionPipeline : public Pipeline {
 public:
  [[nodiscard]] std::int64_t token_pixels() const override;
  [[nodiscard]] std::span<const std::string> labels() const override { return labels_; }
  [[nodiscard]] std::span<const std::string> prompts() const override { return defaults_.prompts; }
  [[nodiscard]] std::string obstacle_to_images() const override;
  [[nodiscard]] ImageUse image_use() const override { return kind_.image_use; }

  [[nodiscard]] Request resolve(const RequestOptions& options) const override;
  [[nodiscard]] std::vector<IdleOption> idle_options(const RequestOptions& options,
                                                     const ImageRequest& image) const override;
  [[nodiscard]] std::span<const TextReader> text_readers() const override { return readers_; }
  [[nodiscard]] std::optional<ImageCoder> encoder() const override;
  [[nodiscard]] std::optional<ImageCoder> decoder() const override;
  [[nodiscard]] Graph build_denoise(const Request& request) const override;
  [[nodiscard]] SamplerTables sampler_tables(const Request& request) const override;

  void set_request_inputs(Session& denoise, const Request& request) const override;
  void set_image_inputs(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                        const Conditioning& conditioning) const override;
  [[nodiscard]] HostTensor decode(const HostTensor& latents, const Request& request) const override;
  [[nodiscard]] std::unique_ptr<ClassifierJudge> open_judge(Backend& cpu) const override;

 protected:
  DiffusionPipeline(PipelineParts parts, const DiffusionKind& kind);

  /// A text that a denoiser reads, by the name of the loop's input.
  struct TextInput {
    std::string name;
    Shape shape;  ///< [batch, ...]
  };

  [[nodiscard]] bool reads_text() const { return !readers_.empty(); }
  [[nodiscard]] const GenerationDefaults& defaults() const { return defaults_; }

  /// What a request is where nobody says.
  [[nodiscard]] virtual Request default_request() const = 0;
  [[nodiscard]] virtual std::vector<TextInput> text_inputs(const Request& request) const = 0;
  /// Adds the denoiser's inputs to the graph: `texts`, which are those of text_inputs(), are there. What it gives is called in the loop.
  [[nodiscard]] virtual Predict add_denoiser(Builder& builder, const Request& request,
                                             const std::vector<ValueId>& texts) const = 0;
  /// Sets those of them that are the same for all images of a request.
  virtual void set_denoiser_inputs(Session& denoise, const Request& request) const = 0;

 private:
  friend class DiffusionStream;  // which makes another graph of the same parts

  [[nodiscard]] Shape latents_of(const Request& request) const;
  /// What the folder's scheduler_config.json says, with the sampler that is named instead of its own. Throws Error.
  [[nodiscard]] Scheduler scheduler(std::optional<Sampler> named) const;
  void resolve_sampler(const std::optional<SamplerChoice>& choice, Request& request) const;
  [[nodiscard]] bool is_guided_by_passes() const { return kind_.is_guided_by_passes && reads_text(); }
  void resolve_guidance(const RequestOptions& options, const Request& own, Request& request) const;
  void resolve_strength(const RequestOptions& options, const Request& own, Request& request) const;
  void set_texts(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                 const Conditioning& conditioning) const;
  void set_noise(Session& denoise, const Request& request, std::span<const ImageRequest> images) const;

  std::filesystem::path folder_;
  DiffusionKind kind_;
  std::vector<TextReader> readers_;
  std::optional<Autoencoder> autoencoder_;  // of the component `vae`
  nlohmann::json scheduler_;                // of scheduler_config.json
  GenerationDefaults defaults_;
  std::vector<std::string> labels_;
};

/// The value. Throws a usage Error that says what it is of, where it is not 0 to `most`, NaN among others.
[[nodiscard]] double number_up_to(double most, std::string_view what, double value);

/// A tensor of that number.
[[nodiscard]] HostTensor filled_tensor(Shape shape, double value);

}  // namespace headroom
