#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "base/host_tensor.hpp"
#include "base/switches.hpp"
#include "run/compile.hpp"
#include "run/denoise.hpp"
#include "run/model.hpp"
#include "run/session.hpp"
#include "run/weight_store.hpp"

namespace headroom {

/// What a generator is fixed to.
struct GeneratorOptions {
  std::int64_t images = 1;      ///< made by one call of generate()
  std::int64_t token_rows = 0;  ///< 0: the model's own size
  std::int64_t token_columns = 0;
  std::int64_t text_tokens = 0;  ///< 0: those of the model's prompts, or 512
  std::int64_t steps = 0;        ///< 0: the model's own number; the switch steps=N overrides it
  double guidance_scale = 0;     ///< 0: the model's own
  SwitchSet switches;
  bool drops_other_weights = false;  ///< frees what the store holds and this request does not use, before it loads
  bool suggests_what_fits = true;    ///< in the error where it does not fit, which takes time
};

/// One image to make: a label of the prompt table (or, where the model has none, the number of a random prompt), and
/// the seed of its noise.
struct ImageRequest {
  std::int64_t label = 0;
  std::uint64_t seed = 0;
};

/// `count` requests from number `first` on: number i takes label i, round and round, and seed `seed` + i.
[[nodiscard]] std::vector<ImageRequest> make_image_requests(const Model& model, std::int64_t first, std::int64_t count,
                                                            std::uint64_t seed);

/// A model compiled for one request shape: latents out of labels and seeds. Equal requests give equal noise under every
/// set of switches, so images of two generators can be compared.
class Generator {
 public:
  /// Compiles the denoise loop and loads its weights. All three must outlive the generator. Throws a usage Error for
  /// sizes that make no sense, and OutOfMemory, before anything is loaded, for what does not fit: see require_fit().
  Generator(const Model& model, Backend& backend, WeightStore& weights, const GeneratorOptions& options);

  /// Latents [images, image_tokens, channels] f32 of exactly options.images requests.
  [[nodiscard]] HostTensor generate(std::span<const ImageRequest> requests, const IterationObserver& observer = {});

  [[nodiscard]] const DenoiseRequest& request() const noexcept { return request_; }
  [[nodiscard]] const Compiled& compiled() const noexcept { return compiled_; }
  [[nodiscard]] const Session& session() const noexcept { return *session_; }
  [[nodiscard]] Session& session() noexcept { return *session_; }
  [[nodiscard]] double guidance_scale() const noexcept { return guidance_scale_; }

 private:
  void require_memory(Backend& backend, const WeightStore& weights, const GeneratorOptions& options) const;
  void set_constant_inputs();
  void set_prompts(std::span<const ImageRequest> requests);
  [[nodiscard]] HostTensor prompt_rows(const HostTensor* table, const Shape& row,
                                       std::span<const ImageRequest> requests) const;
  [[nodiscard]] HostTensor noise(std::span<const ImageRequest> requests) const;

  const Model& model_;
  DenoiseRequest request_;
  double guidance_scale_;
  Compiled compiled_;
  std::unique_ptr<Session> session_;
};

/// The request that the options and the model's own defaults make. Throws a usage Error for sizes out of range.
[[nodiscard]] DenoiseRequest make_request(const Model& model, const GeneratorOptions& options);

/// img_ids [rows * columns, axes] as FLUX numbers them: (0, row, column).
[[nodiscard]] HostTensor make_image_ids(std::int64_t rows, std::int64_t columns, std::int64_t axes);

}  // namespace headroom
