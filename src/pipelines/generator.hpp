#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/tensors/host_tensor.hpp"
#include "pipelines/pipeline.hpp"
#include "pipelines/stages/device_stage.hpp"
#include "pipelines/stages/prompt_reader.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// What generators of one pipeline on one store share, where they are to: what reads prompts, of those with the same
/// switches and text tokens, and the turns that their stages take.
struct SharedStages {
  std::shared_ptr<PromptReader> reader = nullptr;
  std::shared_ptr<Offloader> offloader = nullptr;
};

/// A pipeline compiled for one request: latents, and where it decodes them pixels, out of prompts and seeds. Equal
/// requests give equal noise under every set of switches, so images of two generators can be compared.
class Generator {
 public:
  /// Compiles every stage and loads its weights. The first three must outlive the generator; the store has the
  /// pipeline's checkpoints. Where options.memory_limit, or the device, is too small for all stages they take turns.
  /// Throws a usage Error for sizes that make no sense, and OutOfMemory, before anything is loaded, where one stage
  /// alone does not fit: see require_fit().
  Generator(const Pipeline& pipeline, Backend& backend, WeightStore& weights, const RequestOptions& options,
            SharedStages shared = {});
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Latents [images, ...] f32 of exactly request().images images.
  [[nodiscard]] HostTensor generate(std::span<const ImageRequest> images, const IterationObserver& observer = {});
  /// Whether decode() gives pixels.
  [[nodiscard]] bool makes_pixels() const { return pipeline_.obstacle_to_images().empty(); }
  /// Pixels of latents, [images, channels, height, width] f32 in [-1, 1], unclamped. Throws Error where the pipeline has
  /// none.
  [[nodiscard]] HostTensor decode(const HostTensor& latents);

  /// Whether some steps skip the network, or most of it.
  [[nodiscard]] bool has_step_cache() const;
  /// For each step of the last generation whether the network, or all of it, was computed, where there is a step cache;
  /// empty where there is none.
  [[nodiscard]] std::vector<bool> computed_steps() const;
  /// The stages that ran since generate() was last called, in that order.
  [[nodiscard]] std::span<const StageRun> stages() const noexcept { return took_; }
  [[nodiscard]] const Request& request() const noexcept { return request_; }
  [[nodiscard]] const Shape& latents_shape() const;
  /// Of the denoise loop; but `applied` and `declined` are of all stages together.
  [[nodiscard]] const Compiled& compiled() const noexcept { return denoise_.compiled; }
  [[nodiscard]] const Session& session() const noexcept { return *denoise_.session; }
  [[nodiscard]] Session& session() noexcept { return *denoise_.session; }
  /// Those that run on the device, in order.
  [[nodiscard]] std::vector<const DeviceStage*> device_stages() const;
  /// For other generators.
  [[nodiscard]] SharedStages shared() const { return {.reader = reader_, .offloader = offloader_}; }
  [[nodiscard]] PromptReader& prompt_reader() const noexcept { return *reader_; }

 private:
  [[nodiscard]] std::vector<DeviceStage*> own_stages();
  void require_memory(Backend& backend, const WeightStore& weights, const RequestOptions& options) const;
  template <class Body>
  void run_stage(std::string name, std::size_t bytes, const Body& body);
  [[nodiscard]] Conditioning make_conditioning(std::span<const ImageRequest> images);

  const Pipeline& pipeline_;
  Request request_;
  std::shared_ptr<Offloader> offloader_;
  std::shared_ptr<PromptReader> reader_;
  std::optional<DeviceStage> encode_;
  DeviceStage denoise_;
  std::optional<DeviceStage> decode_;
  std::vector<StageRun> took_;
};

}  // namespace headroom
