#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "cli/images/image_job.hpp"
#include "media/image.hpp"
#include "pipelines/generator_pool.hpp"
#include "run/weights/lora.hpp"

namespace headroom {

/// A job whose files were read and whose size is resolved.
struct PreparedImage {
  RequestOptions options;  ///< for one image
  ImageRequest image;
  std::vector<LoraUse> loras;
  ImageRegion crop = {};  ///< of the made image; empty: all of it
};
/// Prepares a job under these switches, which may name a sampler and steps. Throws a usage Error for sizes and
/// switches that the pipeline does not support, and Error for files that cannot be read.
[[nodiscard]] PreparedImage prepare(const Pipeline& pipeline, const ImageJob& job, const SwitchSet& switches);
/// For each text that an encoder truncates, the part that it reads: "text_encoder reads 77 of the 90 tokens of the
/// prompt".
[[nodiscard]] std::vector<std::string> tell_cut_texts(const Pipeline& pipeline, const PreparedImage& prepared);

/// Whether the seed has no effect, because the noise is given and the sampler draws none.
[[nodiscard]] bool is_seed_idle(const Pipeline& pipeline, const PreparedImage& prepared);

/// Images made in one generation, with their times.
struct MadeImages {
  std::vector<Image> images;
  std::vector<StageRun> stages;
  std::vector<double> step_ms;
  std::vector<bool> computed_steps;  ///< if there is a step cache: see Generator::computed_steps()
};

/// Makes images of jobs, one generation after the other, on cached generators.
class ImageMaker {
 public:
  /// The engine, which must have a pipeline, must outlive it. The other arguments are as in GeneratorPool.
  ImageMaker(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first);

  /// The number of leading jobs that fit in one generation. They must be equal, including LoRA files, except for
  /// the content of the image. At most `batch` jobs; 0 means as many as have 4096 tokens together.
  [[nodiscard]] std::size_t count_together(std::span<const PreparedImage> jobs, std::int64_t batch) const;
  /// Makes jobs that fit in one generation. `on_step` is called after each denoise step.
  [[nodiscard]] MadeImages make(std::span<const PreparedImage> jobs, const std::function<void()>& on_step = {});
  /// The generator for those jobs, with their LoRA files in its weights; valid until the next one is made.
  [[nodiscard]] Generator& generator(std::span<const PreparedImage> jobs);
  /// A sentence for each unused part of the LoRA files of these jobs.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return loras_.notes(); }

 private:
  const Pipeline& pipeline_;
  GeneratorPool pool_;
  LoraFiles loras_;
  double lora_ms_ = 0;  // since the last make(): host time of changing weights
};

}  // namespace headroom
