#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
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
#include "run/ranks.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// The stage that decodes images of a size, for all generators of this size.
struct SizedDecoder {
  TokenSize size;
  DeviceStage stage;
  std::shared_ptr<Offloader> offloader;  ///< null until the stage is loaded
  ~SizedDecoder() {
    if (offloader != nullptr) offloader->forget(stage);
  }
};

/// State that generators of one pipeline and one store can share for equal switches: the reader of prompts, for equal
/// text tokens, the offloader, and the decoder, which a request of another size ignores.
struct SharedStages {
  std::shared_ptr<PromptReader> reader = nullptr;
  std::shared_ptr<Offloader> offloader = nullptr;
  std::shared_ptr<SizedDecoder> decoder = nullptr;
};

/// A pipeline compiled for one request: it makes latents, and pixels where it decodes, from prompts and seeds. Equal
/// requests use equal noise under every set of switches, so images of two generators can be compared. If texts are not
/// padded, the loop is compiled again for texts of other lengths. Under `cp` ranks share the loop: each has a program
/// and a session of its own, and the same inputs; of GPUs each has one, with weights of its own. All other stages run
/// once, on the device of rank 0.
class Generator {
 public:
  /// Compiles every stage and loads its weights. Pipeline, backend and store must outlive the generator; the store
  /// has the pipeline's checkpoints. If options.memory_limit, or the device, is too small for all stages together,
  /// their weights are offloaded. Throws a usage Error for invalid sizes. Throws OutOfMemory, before anything is
  /// loaded, if one stage alone does not fit: see require_fit().
  Generator(const Pipeline& pipeline, Backend& backend, WeightStore& weights, const RequestOptions& options,
            SharedStages shared = {});
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Everything before the loop: encodes texts and images, sets the inputs, and runs the loop's setup.
  void prepare(std::span<const ImageRequest> images);
  /// Runs the loop on what prepare() has set, once. Latents [images, ...] f32.
  HostTensor denoise(const IterationObserver& observer = {});
  /// Calls both, for exactly request().images images.
  [[nodiscard]] HostTensor generate(std::span<const ImageRequest> images, const IterationObserver& observer = {});
  /// Whether decode() returns pixels.
  [[nodiscard]] bool makes_pixels() const { return pipeline_.obstacle_to_images().empty(); }
  /// Decodes latents to pixels [images, channels, height, width] f32 in [-1, 1], unclamped. Throws Error if the
  /// pipeline has none.
  [[nodiscard]] HostTensor decode(const HostTensor& latents);

  /// Whether some steps skip all or most of the network.
  [[nodiscard]] bool has_step_cache() const;
  /// For each step of the last generation, whether the whole network was computed. Empty without a step cache.
  [[nodiscard]] std::vector<bool> computed_steps() const;
  /// The stages that ran since the last call of generate(), in order.
  [[nodiscard]] std::span<const StageRun> stages() const noexcept { return took_; }
  [[nodiscard]] const Request& request() const noexcept { return request_; }
  [[nodiscard]] const Shape& latents_shape() const;
  /// The denoise loop, with its setup, of rank 0 if ranks share it; but `applied` and `declined` cover all stages.
  [[nodiscard]] const Compiled& compiled() const noexcept { return denoise_.compiled; }
  [[nodiscard]] const Session& session() const noexcept { return *denoise_.session; }
  [[nodiscard]] Session& session() noexcept { return *denoise_.session; }
  /// The sessions of the loop of ranks 1, 2, ..., which run along with session().
  [[nodiscard]] std::vector<Session*> other_sessions();
  /// The session of the loop's setup (Program::setup), a stage of its own; null if there is none.
  [[nodiscard]] Session* setup() const noexcept { return setup_ ? setup_->session.get() : nullptr; }
  /// The stages that run on the device, in order.
  [[nodiscard]] std::vector<const DeviceStage*> device_stages() const;
  /// To pass to other generators.
  [[nodiscard]] SharedStages shared() const { return {reader_, offloader_, decoder_}; }
  [[nodiscard]] PromptReader& prompt_reader() const noexcept { return *reader_; }

 private:
  [[nodiscard]] DeviceStage& first_of_loop() { return setup_ ? *setup_ : denoise_; }
  void require_memory(const RequestOptions& options) const;
  void compile_loop(const RequestOptions& options);
  void compile_ranks(const RequestOptions& options, int count);
  /// Whether a rank has a device of its own, other than the backend's.
  [[nodiscard]] bool is_elsewhere(int rank) const;
  /// Calls body() where the rank's device is current.
  void on_rank(int rank, const std::function<void()>& body);
  [[nodiscard]] Offloader& offloader_of(int rank);
  void load_loop();
  /// The loop of every rank, that of rank 0 first.
  [[nodiscard]] std::vector<DeviceStage*> loops();
  void run_loop(const IterationObserver& observer);
  void forget_loops() noexcept;
  void fit_texts(std::span<const ImageRequest> images);
  template <class Body>
  void run_stage(std::string name, std::size_t bytes, const Body& body);
  [[nodiscard]] Conditioning make_conditioning(std::span<const ImageRequest> images);
  void encode_references(const ImageRequest& image, std::vector<Conditioning::Part>& made);

  /// The stage that encodes images of a size.
  struct SizedEncoder {
    TokenSize size;
    DeviceStage stage;
  };

  const Pipeline& pipeline_;
  Backend& backend_;
  WeightStore& weights_;
  RequestOptions options_;
  Request request_;
  std::shared_ptr<Offloader> offloader_;
  std::shared_ptr<PromptReader> reader_;
  std::deque<SizedEncoder> encoders_;                     // by the sizes of references
  std::optional<DeviceStage> setup_;                      // of the denoise loop; none if ranks share it
  std::unique_ptr<Ranks> ranks_;                          // null if one rank runs the loop
  DeviceStage denoise_;                                   // of rank 0
  std::deque<DeviceStage> other_loops_;                   // of ranks 1, 2, ...
  std::map<int, std::unique_ptr<Offloader>> offloaders_;  // of ranks elsewhere
  std::shared_ptr<SizedDecoder> decoder_;                 // null if the pipeline decodes itself
  std::vector<StageRun> took_;
};

}  // namespace headroom
