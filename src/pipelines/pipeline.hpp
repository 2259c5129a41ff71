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
#include "pipelines/schedules/sampler_tables.hpp"
#include "pipelines/stages/classifier_judge.hpp"
#include "pipelines/stages/text_reader.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// What the stages before the denoiser made for a generation, [1, ...] each, on the device.
struct Conditioning {
  using Part = std::shared_ptr<const DeviceTensor>;
  using Text = std::vector<Part>;  ///< by TextReader::readings
  /// By text reader, then by sample of the batch: with classifier-free guidance the negative prompt of each image
  /// first. Empty where the pipeline reads no text.
  std::vector<std::vector<Text>> texts;
  std::vector<Part> references;  ///< latents [1, ...] of each image that is edited or begun with
};

/// What an image that a request brings along is to the one that is made of it.
enum class ImageUse : std::uint8_t {
  kNone,       ///< the pipeline takes none
  kReference,  ///< it stands beside it in every pass
  kStart,      ///< with noise on it, it is what the loop begins with
};

/// An option of a request that changes nothing of what is made.
struct IdleOption {
  std::string_view name;  ///< as requests in JSON call it: "true_cfg_scale"
  std::string reason;     ///< "sd-1.5 has no second text encoder"
};

/// A model from request to result: components, and what the host does around them. A request goes through named stages:
///   tokenize        prompts become ids
///   text_encoder    ids become what the denoiser reads; text_encoder_2 likewise
///   encode          an image that is edited or begun with becomes latents
///   inputs          noise and all that was made so far goes to the denoiser
///   denoise         noise becomes latents, in a loop of forward passes of the denoiser
///   decode          latents become pixels
/// `Generator` (pipelines/generator.hpp) runs them; a kind of pipeline says which there are and what they are. The
/// commands, the ladder, the sweep and `auto` know this interface alone.
class Pipeline {
 public:
  /// All its networks, the denoiser first; each part once.
  explicit Pipeline(std::vector<Component> components) : components_(std::move(components)) {}
  virtual ~Pipeline() = default;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The network that each step runs; the pipeline's name is its.
  [[nodiscard]] const Component& denoiser() const noexcept { return components_.front(); }
  [[nodiscard]] const std::string& name() const noexcept { return denoiser().name; }
  [[nodiscard]] std::span<const Component> components() const noexcept { return components_; }
  /// The component of that part, which there must be.
  [[nodiscard]] const Component& component(std::string_view part) const;
  /// Chooses what the baseline of each component computes in, by its checkpoint.
  void choose_baselines(const std::function<DType(const Checkpoint&)>& choose);
  /// Makes the params of all components what they are beside these updates, in stores that are made from then on.
  void set_updates(const ParamUpdates& updates);
  /// Whether a component has no checkpoint, but random weights.
  [[nodiscard]] bool has_random_weights() const;

  /// Pixels along a token of the denoiser.
  [[nodiscard]] virtual std::int64_t token_pixels() const = 0;
  /// What its images show, where a judge tells them apart by names.
  [[nodiscard]] virtual std::span<const std::string> labels() const { return {}; }
  /// What it draws where nobody says; one for each label, where there are labels. None where it reads no text.
  [[nodiscard]] virtual std::span<const std::string> prompts() const { return {}; }
  /// Why nothing can be seen of what it makes: a sentence. Empty where it makes pixels of prompts that say something.
  [[nodiscard]] virtual std::string obstacle_to_images() const = 0;
  [[nodiscard]] virtual ImageUse image_use() const { return ImageUse::kNone; }
  /// What it resizes an image of that size to, in pixels, that it is to use.
  [[nodiscard]] virtual ImageSize reference_size(const ImageSize& image) const { return image; }
  /// What it makes where that size is asked for, both sides of it.
  [[nodiscard]] virtual ImageSize output_size(const ImageSize& asked) const { return asked; }

  /// The request that the options and the pipeline's own defaults make. Throws a usage Error for what is out of range;
  /// whether the sampler has so many steps is known when sampler_tables() makes them.
  [[nodiscard]] virtual Request resolve(const RequestOptions& options) const = 0;
  /// Options that were given and change nothing of such an image.
  [[nodiscard]] virtual std::vector<IdleOption> idle_options(const RequestOptions& /*options*/,
                                                             const ImageRequest& /*image*/) const {
    return {};
  }
  /// One forward pass of the denoiser as the request's loop runs it, but for request.images samples whatever is guided.
  [[nodiscard]] virtual ForwardPass forward_pass(const Request& request) const = 0;

  /// What reads its prompts; none where prompts are random.
  [[nodiscard]] virtual std::span<const TextReader> text_readers() const { return {}; }
  /// Of one image: `pixels` to `latents`, and `latents` to `pixels`. Null where no component does that.
  struct ImageCoder {
    const Component* component = nullptr;
    std::function<Graph(const Request& request)> build;
    /// Sets what the encoder is given of an image besides its pixels; empty where that is nothing.
    std::function<void(Session& session, const ImageRequest& image)> set_inputs = {};
    bool overflows_f16 = false;  ///< it is known to make numbers that f16 has not: `fp16` is then not for it
  };
  [[nodiscard]] virtual std::optional<ImageCoder> encoder() const { return std::nullopt; }
  [[nodiscard]] virtual std::optional<ImageCoder> decoder() const { return std::nullopt; }
  /// The whole denoise loop: state `latents` [images, ...] f32 begins as noise, or as an image with noise on it, and ends
  /// as the output `latents`.
  [[nodiscard]] virtual Graph build_denoise(const Request& request) const = 0;
  /// What the loop's sampler does, call by call.
  [[nodiscard]] virtual SamplerTables sampler_tables(const Request& request) const = 0;

  /// Sets the inputs of the loop that are the same for all images of a request: positions, noise levels, guidance.
  virtual void set_request_inputs(Session& denoise, const Request& request) const = 0;
  /// Sets what depends on the images: prompts, noise, images that are edited. Throws a usage Error for a label that
  /// there is not, and for noise of another shape.
  virtual void set_image_inputs(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                                const Conditioning& conditioning) const = 0;
  /// Pixels [images, channels, height, width] f32 in [-1, 1], unclamped, of latents, where the host makes them: there is
  /// no decoder(). Throws Error with obstacle_to_images() where there is one.
  [[nodiscard]] virtual HostTensor decode(const HostTensor& latents, const Request& request) const;

  /// What judges its images, on `cpu`, which must outlive it. Throws a usage Error where they cannot be judged.
  [[nodiscard]] virtual std::unique_ptr<ClassifierJudge> open_judge(Backend& cpu) const;

 private:
  std::vector<Component> components_;
};

/// Whether a component is the denoiser of some pipeline.
[[nodiscard]] bool is_denoiser(const Component& component);
/// The pipeline of a denoiser alone: it makes latents of random prompts. Throws a usage Error where there is none.
[[nodiscard]] std::unique_ptr<Pipeline> make_pipeline(Component denoiser);
/// Opens a folder with a model_index.json, a model that ships, or what open_component() opens, for make_pipeline(). With
/// `random_seed`, random weights stand in for all checkpoints. Throws Error for a class of pipeline that is not known,
/// and where a part is missing, broken or does not fit the others.
[[nodiscard]] std::unique_ptr<Pipeline> open_pipeline(const std::string& name_or_folder,
                                                      std::optional<std::uint64_t> random_seed = std::nullopt);
/// Whether it names the folder of a whole pipeline.
[[nodiscard]] bool is_pipeline(const std::string& name_or_folder);
/// Whether a pipeline of that class, as model_index.json calls it, can be opened.
[[nodiscard]] bool is_pipeline_class(std::string_view class_name);

/// What a text reader, by its number, is given for an image: its prompt, or the pipeline's of its label. Throws a usage
/// Error for a label that there is not.
[[nodiscard]] std::string prompt_of(const Pipeline& pipeline, const ImageRequest& image, std::size_t reader);
/// The same of the negative prompt; nothing where there is none.
[[nodiscard]] std::optional<std::string> negative_prompt_of(const ImageRequest& image, std::size_t reader);

/// Tokens of the denoiser along so many pixels; 0 for 0. Throws a usage Error, naming `what` they are, where they do not
/// divide into tokens.
[[nodiscard]] std::int64_t tokens_along(const Pipeline& pipeline, std::string_view what, std::int64_t pixels);

/// The denoise loop under the switches, in the denoiser's baseline. A note of the pass `meancache` says whether its steps are those
/// that were calibrated (pipelines/schedules/step_calibration.hpp). With `records_velocities` it has the output kVelocities too; throws
/// Error where there is no velocity.
[[nodiscard]] Compiled compile_denoise(const Pipeline& pipeline, const Request& request, const SwitchSet& switches,
                                       const Target& target, bool records_velocities = false);

/// `count` images from number `first` on: number i takes prompt i, round and round, and seed `seed` + i.
[[nodiscard]] std::vector<ImageRequest> make_image_requests(const Pipeline& pipeline, std::int64_t first,
                                                            std::int64_t count, std::uint64_t seed);

}  // namespace headroom
