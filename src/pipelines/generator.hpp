#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "base/host_tensor.hpp"
#include "pipelines/pipeline.hpp"
#include "run/weight_store.hpp"

namespace headroom {

/// What a stage of a pipeline took.
struct StageRun {
  std::string_view name;    ///< "denoise"
  double milliseconds = 0;  ///< wall time
  std::size_t bytes = 0;    ///< device memory of its activations and scratch
};

/// A pipeline compiled for one request: latents, and where it decodes them pixels, out of labels and seeds. Equal
/// requests give equal noise under every set of switches, so images of two generators can be compared.
class Generator {
 public:
  /// Compiles the denoise loop and loads its weights. All three must outlive the generator. Throws a usage Error for
  /// sizes that make no sense, and OutOfMemory, before anything is loaded, for what does not fit: see require_fit().
  Generator(const Pipeline& pipeline, Backend& backend, WeightStore& weights, const RequestOptions& options);

  /// Latents [images, image_tokens, channels] f32 of exactly request().images images.
  [[nodiscard]] HostTensor generate(std::span<const ImageRequest> images, const IterationObserver& observer = {});
  /// Pixels of latents, as Pipeline::decode() gives them.
  [[nodiscard]] HostTensor decode(const HostTensor& latents);

  /// The stages that ran since generate() was last called, in that order.
  [[nodiscard]] std::span<const StageRun> stages() const noexcept { return stages_; }
  [[nodiscard]] const Request& request() const noexcept { return request_; }
  [[nodiscard]] const Shape& latents_shape() const;
  [[nodiscard]] const Compiled& compiled() const noexcept { return compiled_; }
  [[nodiscard]] const Session& session() const noexcept { return *session_; }
  [[nodiscard]] Session& session() noexcept { return *session_; }

 private:
  void require_memory(Backend& backend, const WeightStore& weights, const RequestOptions& options) const;
  template <class Body>
  void run_stage(std::string_view name, std::size_t bytes, const Body& body);

  const Pipeline& pipeline_;
  Request request_;
  Compiled compiled_;
  std::unique_ptr<Session> session_;
  std::vector<StageRun> stages_;
};

}  // namespace headroom
