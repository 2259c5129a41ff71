#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

/// The loop's input of a flow map: the timestep that each pass leads to, [calls, batch].
inline constexpr const char* kTargetTimesteps = "target_timesteps";

/// Constants of one kind of diffusion pipeline.
struct DiffusionKind {
  std::string_view loop;  ///< the name of the graph of its loop: "flux_denoise"
  LatentForm form = LatentForm::kImage;
  std::int64_t channels = 0;     ///< of a token
  std::int64_t max_prompt = 77;  ///< the longest prompt that its encoders read, in tokens
  bool pads_prompts = true;      ///< the denoiser reads as many tokens of every prompt
  double timestep_unit = 1;      ///< timesteps are passed to the denoiser in units of this many training steps
  ImageUse image_use = ImageUse::kNone;
  bool embeds_guidance = false;      ///< guidance_scale is an input of the denoiser
  bool is_guided_by_passes = false;  ///< guidance_scale is that of classifier-free guidance, which is off up to 1
  /// The guidance scale is what is added to the guided prediction: classifier-free guidance is off at 0, and has the
  /// usual scale less 1.
  bool guidance_is_added = false;
  double true_cfg_scale = 1;  ///< of an image with a negative prompt, if it is left open
  GuidanceForm guidance = GuidanceForm::kLinear;
  bool is_flow_map = false;        ///< the denoiser also reads the timestep after each step
  bool shift_is_by_steps = false;  ///< FlowSchedule::is_by_steps
  std::size_t most_references = 1;
  bool vae_overflows_f16 = false;  ///< intermediate values of its autoencoder are known to exceed the range of f16
};

/// Text encoders read the prompts, and a loop of denoiser passes turns noise into latents. The autoencoder, if there
/// is one, decodes latents to pixels and encodes images to latents. A denoiser alone runs on random prompts and makes
/// latents. This class holds the code common to all kinds; a kind defines its network, the network's inputs and the
/// default request.
class DiffusionPipeline : public Pipeline {
 public:
  [[nodiscard]] std::int64_t token_pixels() const override;
  [[nodiscard]] std::span<const std::string> labels() const override { return labels_; }
  [[nodiscard]] std::span<const std::string> prompts() const override { return defaults_.prompts; }
  [[nodiscard]] std::string obstacle_to_images() const override;
  [[nodiscard]] ImageUse image_use() const override { return kind_.image_use; }
  [[nodiscard]] std::size_t most_references() const override { return kind_.most_references; }

  [[nodiscard]] Request resolve(const RequestOptions& options) const override;
  [[nodiscard]] std::vector<std::int64_t> text_lengths(const Request& request,
                                                       std::span<const ImageRequest> images) const override;
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

  /// A text that the denoiser reads, under the name of the loop's input.
  struct TextInput {
    std::string name;
    Shape shape;  ///< [batch, ...]; the texts of all rows one after the other, [tokens, ...], if they are not padded
  };

  /// Adds the loop's inputs for the latents of reference images, [images, tokens, channels] for each. Returns them one
  /// after the other, [images, tokens of all, channels]; kNoValue if there are none.
  [[nodiscard]] ValueId add_references(Builder& builder, const Request& request) const;
  /// For a denoiser to which references are more image tokens: `predict` on the latents followed by the references,
  /// [images, tokens, channels], of which it gives the velocity of the latents. Without references it is `predict`.
  [[nodiscard]] static Predict beside_references(Builder& builder, const Request& request, ValueId references,
                                                 Predict predict);
  /// The same as inputs whose entries are tokens.
  [[nodiscard]] static std::vector<TokenInput> reference_inputs(const Request& request);

  /// Tensors by input.
  using Positions = std::map<std::string, HostTensor, std::less<>>;
  /// A forward pass of a transformer over a request's image tokens and so many text tokens. Its inputs are these
  /// positions, timesteps uniform in [0, 1), and normal values in all others.
  [[nodiscard]] ForwardPass pass_over_tokens(const Request& request, std::int64_t text_tokens,
                                             std::function<Graph(const RequestSize& size)> build,
                                             Positions positions) const;

  [[nodiscard]] bool reads_text() const { return !readers_.empty(); }
  [[nodiscard]] const GenerationDefaults& defaults() const { return defaults_; }

  /// The request where options leave everything open.
  [[nodiscard]] virtual Request default_request() const = 0;
  [[nodiscard]] virtual std::vector<TextInput> text_inputs(const Request& request) const = 0;
  /// Adds the denoiser's inputs to the graph, except the `texts` of text_inputs(), which exist already. The loop
  /// calls the returned function.
  [[nodiscard]] virtual Predict add_denoiser(Builder& builder, const Request& request,
                                             const std::vector<ValueId>& texts) const = 0;
  /// Sets those of these inputs that are the same for all images of a request.
  virtual void set_denoiser_inputs(Session& denoise, const Request& request) const = 0;

 private:
  friend class DiffusionStream;  // builds another graph from the same parts

  [[nodiscard]] Shape latents_of(const Request& request) const;
  /// The scheduler of the folder's scheduler_config.json, with the named sampler, if any, in place of its own. Throws
  /// Error.
  [[nodiscard]] Scheduler scheduler(std::optional<Sampler> named) const;
  void resolve_sampler(const std::optional<SamplerChoice>& choice, Request& request) const;
  [[nodiscard]] bool is_guided_by_passes() const { return kind_.is_guided_by_passes && reads_text(); }
  /// The guidance scale up to which there is no classifier-free guidance.
  [[nodiscard]] double unguided_scale() const { return kind_.guidance_is_added ? 0 : 1; }
  void resolve_guidance(const RequestOptions& options, const Request& own, Request& request) const;
  void resolve_strength(const RequestOptions& options, const Request& own, Request& request) const;
  void resolve_texts(const RequestOptions& options, Request& request) const;
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

/// The texts of a request's passes, as transformers read them that take texts of several lengths without padding.
struct JoinedTexts {
  ValueId states;                          ///< [passes, tokens, channels], or with lengths [1, tokens of all, channels]
  std::vector<std::int64_t> lengths = {};  ///< tokens of each, where they differ
};
/// `rows` has the tokens of all texts, one text after the other.
[[nodiscard]] JoinedTexts join_texts(Builder& builder, const Request& request, ValueId rows, std::int64_t channels);

/// Returns the value. Throws a usage Error that names `what` if the value is outside 0 to `most` or NaN.
[[nodiscard]] double number_up_to(double most, std::string_view what, double value);

/// A tensor filled with the value.
[[nodiscard]] HostTensor filled_tensor(Shape shape, double value);

}  // namespace headroom
