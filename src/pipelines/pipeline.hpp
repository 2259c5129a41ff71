#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_tensor.hpp"
#include "pipelines/classifier_judge.hpp"
#include "pipelines/request.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"
#include "run/session.hpp"

namespace headroom {

/// A model from request to result: components, and what the host does around them. A request goes through named stages:
///   prompt   what the request says becomes inputs on the device
///   denoise  noise becomes latents, in a loop of forward passes of the denoiser
///   decode   latents become pixels
/// `Generator` (pipelines/generator.hpp) runs them; a kind of pipeline says what they are. The commands, the ladder, the
/// sweep and `auto` know this interface alone.
class Pipeline {
 public:
  explicit Pipeline(Component denoiser) : denoiser_(std::move(denoiser)) {}
  virtual ~Pipeline() = default;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The network that each step runs; the pipeline's name, weights and baseline are its.
  [[nodiscard]] const Component& denoiser() const noexcept { return denoiser_; }
  [[nodiscard]] Component& denoiser() noexcept { return denoiser_; }
  [[nodiscard]] const std::string& name() const noexcept { return denoiser_.name; }

  /// Pixels along a token of the denoiser.
  [[nodiscard]] virtual std::int64_t token_pixels() const = 0;
  /// Names of the prompts that ship with it; none where it draws random ones.
  [[nodiscard]] virtual std::span<const std::string> labels() const { return {}; }
  /// Why nothing can be seen of what it makes: a sentence. Empty where it makes pixels of prompts that say something.
  [[nodiscard]] virtual std::string obstacle_to_images() const = 0;

  /// The request that the options and the pipeline's own defaults make. Throws a usage Error for sizes out of range.
  [[nodiscard]] virtual Request resolve(const RequestOptions& options) const = 0;
  /// One forward pass of the denoiser as the request's loop runs it, but for request.images samples whatever is guided.
  [[nodiscard]] virtual ForwardPass forward_pass(const Request& request) const = 0;

  /// The whole denoise loop: state `latents` begins as noise and ends as the output `latents`
  /// [images, image_tokens, channels] f32.
  [[nodiscard]] virtual Graph build_denoise(const Request& request) const = 0;
  /// Sets the inputs that are the same for all images of a request: positions, noise levels, guidance.
  virtual void set_request_inputs(Session& denoise, const Request& request) const = 0;
  /// Sets what depends on the images: prompts and noise. Throws a usage Error for a label that there is not.
  virtual void set_image_inputs(Session& denoise, const Request& request,
                                std::span<const ImageRequest> images) const = 0;
  /// Pixels [images, channels, height, width] f32 in [-1, 1], unclamped, of latents. Throws Error with
  /// obstacle_to_images() where there is one.
  [[nodiscard]] virtual HostTensor decode(const HostTensor& latents, const Request& request) const;

  /// What judges its images, on `cpu`, which must outlive it. Throws a usage Error where they cannot be judged.
  [[nodiscard]] virtual std::unique_ptr<ClassifierJudge> open_judge(Backend& cpu) const;

 private:
  Component denoiser_;
};

/// Whether a component is the denoiser of some pipeline.
[[nodiscard]] bool is_denoiser(const Component& component);
/// The pipeline of a denoiser and of what ships beside it. Throws a usage Error where there is none, Error where what
/// lies beside its config.json is broken.
[[nodiscard]] std::unique_ptr<Pipeline> make_pipeline(Component denoiser);
/// make_pipeline() of open_component().
[[nodiscard]] std::unique_ptr<Pipeline> open_pipeline(const std::string& name_or_folder,
                                                      std::optional<std::uint64_t> random_seed = std::nullopt);

/// Tokens of the denoiser along so many pixels; 0 for 0. Throws a usage Error, naming `what` they are, where they do not
/// divide into tokens.
[[nodiscard]] std::int64_t tokens_along(const Pipeline& pipeline, std::string_view what, std::int64_t pixels);

/// The denoise loop under the switches, in the denoiser's baseline.
[[nodiscard]] Compiled compile_denoise(const Pipeline& pipeline, const Request& request, const SwitchSet& switches,
                                       const Target& target);

/// `count` images from number `first` on: number i takes label i, round and round, and seed `seed` + i.
[[nodiscard]] std::vector<ImageRequest> make_image_requests(const Pipeline& pipeline, std::int64_t first,
                                                            std::int64_t count, std::uint64_t seed);

}  // namespace headroom
