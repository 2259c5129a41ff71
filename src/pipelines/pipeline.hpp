#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "pipelines/request.hpp"
#include "pipelines/schedules/sampler_formulas.hpp"
#include "pipelines/stages/classifier_judge.hpp"
#include "pipelines/stages/reference_images.hpp"
#include "pipelines/stages/text_reader.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// Results of the stages before the denoiser, for one generation: tensors [1, ...] on the device.
struct Conditioning {
  using Part = std::shared_ptr<const DeviceTensor>;
  using Text = std::vector<Part>;  ///< one for each of TextReader::readings
  /// By text reader, then by sample of the batch; with classifier-free guidance, the negative prompts of all images
  /// come first. Empty if the pipeline reads no text.
  std::vector<std::vector<Text>> texts;
  /// Latents [1, ...] of the references of each image in turn, or of each starting image.
  std::vector<Part> references;
};

/// How a pipeline uses the image of a request.
enum class ImageUse : std::uint8_t {
  kNone,       ///< the pipeline takes no image
  kReference,  ///< every pass reads it together with the image being made
  kStart,      ///< the loop starts from it, with noise added
};

/// An option of a request that has no effect on the result.
struct IdleOption {
  std::string_view name;  ///< its name in JSON requests: "true_cfg_scale"
  std::string reason;     ///< "sd-1.5 has no second text encoder"
};

/// A model from request to result: components, and the host steps around them. The stages of a request:
///   tokenize        prompts become ids
///   text_encoder    ids become the embeddings that the denoiser reads; text_encoder_2 likewise
///   encode          a reference or starting image becomes latents
///   inputs          noise and the results so far are copied to the denoiser
///   denoise         noise becomes latents, in a loop of forward passes of the denoiser
///   decode          latents become pixels
/// `Generator` (pipelines/generator.hpp) runs them; each kind of pipeline defines its own stages. The commands, the
/// ladder, the sweep and `auto` use this interface only.
class Pipeline {
 public:
  /// All networks, the denoiser first; each part once.
  explicit Pipeline(std::vector<Component> components) : components_(std::move(components)) {}
  virtual ~Pipeline() = default;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The network that each step runs. Its name is the pipeline's name.
  [[nodiscard]] const Component& denoiser() const noexcept { return components_.front(); }
  [[nodiscard]] const std::string& name() const noexcept { return denoiser().name; }
  [[nodiscard]] std::span<const Component> components() const noexcept { return components_; }
  /// The component of that part, which must exist.
  [[nodiscard]] const Component& component(std::string_view part) const;
  /// Chooses the dtype of each component's baseline from its checkpoint.
  void choose_baselines(const std::function<DType(const Checkpoint&)>& choose);
  /// Sets the updates of the params of all components; they apply to stores that are made later.
  void set_updates(const ParamUpdates& updates);
  /// Whether a component has random weights instead of a checkpoint.
  [[nodiscard]] bool has_random_weights() const;

  /// Pixels along one side of a token of the denoiser.
  [[nodiscard]] virtual std::int64_t token_pixels() const = 0;
  /// Classes of its images, by name, if a judge can classify them.
  [[nodiscard]] virtual std::span<const std::string> labels() const { return {}; }
  /// Default prompts; one for each label, if there are labels. Empty if the pipeline reads no text.
  [[nodiscard]] virtual std::span<const std::string> prompts() const { return {}; }
  /// A sentence that says why it makes no meaningful images; empty if it makes pixels from meaningful prompts.
  [[nodiscard]] virtual std::string obstacle_to_images() const = 0;
  [[nodiscard]] virtual ImageUse image_use() const { return ImageUse::kNone; }
  /// The most reference images that it takes.
  [[nodiscard]] virtual std::size_t most_references() const { return 1; }
  /// Makes of given pictures what is encoded, in whole tokens. Throws a usage Error for pictures that it does not take.
  [[nodiscard]] virtual PreparedReferences prepare_references(std::span<const Image> pictures) const;
  /// The size in pixels to which it resizes a reference image of this size, unless it has its own prepare_references().
  [[nodiscard]] virtual ImageSize reference_size(const ImageSize& image) const { return image; }
  /// The output size for a requested size, of which both sides are given.
  [[nodiscard]] virtual ImageSize output_size(const ImageSize& asked) const { return asked; }

  /// The request from the options and the pipeline's defaults. Texts of unknown lengths are as long as the default
  /// prompts. Throws a usage Error for values out of range. The number of steps is checked later, by sampler_tables().
  [[nodiscard]] virtual Request resolve(const RequestOptions& options) const = 0;
  /// The number of states of each text of these images that the denoiser reads, in the order of the rows of a pass.
  /// Empty if it reads request.text_tokens of every text.
  [[nodiscard]] virtual std::vector<std::int64_t> text_lengths(const Request& /*request*/,
                                                               std::span<const ImageRequest> /*images*/) const {
    return {};
  }
  /// Options that were given and have no effect on such an image.
  [[nodiscard]] virtual std::vector<IdleOption> idle_options(const RequestOptions& /*options*/,
                                                             const ImageRequest& /*image*/) const {
    return {};
  }
  /// One forward pass of the denoiser as the request's loop runs it, but with a batch of request.images even under
  /// guidance.
  [[nodiscard]] virtual ForwardPass forward_pass(const Request& request) const = 0;

  /// Readers of its prompts; none if prompts are random.
  [[nodiscard]] virtual std::span<const TextReader> text_readers() const { return {}; }
  /// Encodes one image from `pixels` to `latents`, or decodes it from `latents` to `pixels`. Null if no component
  /// does.
  struct ImageCoder {
    const Component* component = nullptr;
    std::function<Graph(const Request& request, const TokenSize& size)> build;  ///< for an image of that size
    /// Sets the encoder's inputs other than pixels; empty if there are none.
    std::function<void(Session& session, const ImageRequest& image)> set_inputs = {};
    /// Intermediate values are known to exceed the range of f16, so that `fp16` does not apply.
    bool overflows_f16 = false;
  };
  [[nodiscard]] virtual std::optional<ImageCoder> encoder() const { return std::nullopt; }
  [[nodiscard]] virtual std::optional<ImageCoder> decoder() const { return std::nullopt; }
  /// The whole denoise loop. State `latents` [images, ...] f32 starts as noise, or as an image with noise, and ends
  /// as the output `latents`.
  [[nodiscard]] virtual Graph build_denoise(const Request& request) const = 0;
  /// The inputs and states of the loop whose entries are tokens, which ranks can share.
  [[nodiscard]] virtual std::vector<TokenInput> token_inputs(const Request& /*request*/) const { return {}; }
  /// The updates of the loop's sampler, call by call.
  [[nodiscard]] virtual SamplerTables sampler_tables(const Request& request) const = 0;

  /// Sets the inputs of the loop that are the same for all images of a request: positions, noise levels, guidance.
  virtual void set_request_inputs(Session& denoise, const Request& request) const = 0;
  /// Sets the inputs that depend on the images: prompts, noise, reference images. Throws a usage Error for an unknown
  /// label, and for noise of a different shape.
  virtual void set_image_inputs(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                                const Conditioning& conditioning) const = 0;
  /// Pixels [images, channels, height, width] f32 in [-1, 1], unclamped, of latents, where the host computes them
  /// instead of a decoder(). Throws Error with obstacle_to_images() if that is not empty.
  [[nodiscard]] virtual HostTensor decode(const HostTensor& latents, const Request& request) const;

  /// The judge of its images; it runs on `cpu`, which must outlive it. Throws a usage Error if images cannot be
  /// judged.
  [[nodiscard]] virtual std::unique_ptr<ClassifierJudge> open_judge(Backend& cpu) const;

 private:
  std::vector<Component> components_;
};

/// Whether a component is the denoiser of some pipeline.
[[nodiscard]] bool is_denoiser(const Component& component);
/// The pipeline of a denoiser alone, which makes latents of random prompts. Throws a usage Error if the component is
/// no denoiser.
[[nodiscard]] std::unique_ptr<Pipeline> make_pipeline(Component denoiser);
/// Opens a pipeline's folder, with a model_index.json or modular_model_index.json, a file with a denoiser and its other
/// networks, a denoiser to which `options.parts` gives the others, or whatever open_component() opens for
/// make_pipeline(). Throws Error for an unknown pipeline class, if parts are missing (it names all), and if a part is
/// broken or does not fit the others.
[[nodiscard]] std::unique_ptr<Pipeline> open_pipeline(const std::string& name_or_path, const OpenOptions& options = {});
/// Whether open_pipeline() opens a whole pipeline rather than a denoiser alone.
[[nodiscard]] bool is_pipeline(const std::string& name_or_path, const OpenOptions& options = {});
/// Throws an Error that names the parts which a pipeline of this denoiser alone lacks.
void require_whole_pipeline(const std::string& name_or_path, const OpenOptions& options);
/// Whether a pipeline of that class, as in model_index.json, can be opened.
[[nodiscard]] bool is_pipeline_class(std::string_view class_name);

/// The text that a text reader, by index, reads for an image: the image's prompt, or else the pipeline's prompt for
/// its label. Throws a usage Error for an unknown label.
[[nodiscard]] std::string prompt_of(const Pipeline& pipeline, const ImageRequest& image, std::size_t reader);
/// The same for the negative prompt; nothing if there is none.
[[nodiscard]] std::optional<std::string> negative_prompt_of(const ImageRequest& image, std::size_t reader);
/// All texts of the reader for these images, in the order of the rows of a pass: with classifier-free guidance, the
/// negative prompts come first, and may be missing.
[[nodiscard]] std::vector<std::optional<std::string>> texts_of(const Pipeline& pipeline, const Request& request,
                                                               std::span<const ImageRequest> images,
                                                               std::size_t reader);

/// Tokens of the denoiser along this many pixels; 0 for 0. Throws a usage Error that names `what` if the pixels do
/// not divide into tokens.
[[nodiscard]] std::int64_t tokens_along(const Pipeline& pipeline, std::string_view what, std::int64_t pixels);

/// Compiles the denoise loop under the switches, in the denoiser's baseline. Under `hoist`, what depends on no latents
/// is the program's setup: conditions, and the modulation of all steps. A note of the pass `meancache` says
/// whether its steps are calibrated (pipelines/schedules/step_calibration.hpp). `records_velocities` adds the output
/// kVelocities; it throws Error if there is no velocity. Under `cp` it is the program of rank `rank`.
[[nodiscard]] Compiled compile_denoise(const Pipeline& pipeline, const Request& request, const SwitchSet& switches,
                                       const DeviceTarget& target, bool records_velocities = false, int rank = 0);

/// `count` images from number `first` on: image i takes prompt i, modulo their number, and seed `seed` + i.
[[nodiscard]] std::vector<ImageRequest> make_image_requests(const Pipeline& pipeline, std::int64_t first,
                                                            std::int64_t count, std::uint64_t seed);

}  // namespace headroom
