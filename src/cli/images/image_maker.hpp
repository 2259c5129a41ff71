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

/// A job with its files read and its size resolved.
struct PreparedImage {
  RequestOptions options;  ///< for one image
  ImageRequest image;
  std::vector<LoraUse> loras;
};
/// For an image under those switches, which may name a sampler and steps. Throws a usage Error for sizes and switches that the pipeline
/// has not, Error for files that cannot be read.
[[nodiscard]] PreparedImage prepare(const Pipeline& pipeline, const ImageJob& job, const SwitchSet& switches);
/// Of texts of which an encoder reads the beginning alone, what it reads: "text_encoder reads 77 of the 90 tokens of the
/// prompt".
[[nodiscard]] std::vector<std::string> tell_cut_texts(const Pipeline& pipeline, const PreparedImage& prepared);

/// Whether the seed changes nothing, because the noise is given and the sampler draws none.
[[nodiscard]] bool is_seed_idle(const Pipeline& pipeline, const PreparedImage& prepared);

/// Images made in one generation, and what that took.
struct MadeImages {
  std::vector<Image> images;
  std::vector<StageRun> stages;
  std::vector<double> step_ms;
  std::vector<bool> computed_steps;  ///< where a step cache decides: see Generator::computed_steps()
};

/// Makes images of jobs, one generation after the other, on generators that it keeps.
class ImageMaker {
 public:
  /// The engine, which has a pipeline, must outlive it. The rest is as GeneratorPool has it.
  ImageMaker(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first);

  /// How many jobs from the front are made in one generation: those that ask for the same, LoRA files as well, but for what an image is of,
  /// at most `batch`, or where that is 0 as many as have 4096 tokens.
  [[nodiscard]] std::size_t count_together(std::span<const PreparedImage> jobs, std::int64_t batch) const;
  /// Makes jobs that go together. `on_step` is called after each denoise step.
  [[nodiscard]] MadeImages make(std::span<const PreparedImage> jobs, const std::function<void()>& on_step = {});
  /// The generator of those jobs, with their LoRA files in its weights; valid until the next one is made.
  [[nodiscard]] Generator& generator(std::span<const PreparedImage> jobs);
  /// What was not used of the LoRA files of these jobs, a sentence each.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return loras_.notes(); }

 private:
  const Pipeline& pipeline_;
  GeneratorPool pool_;
  LoraFiles loras_;
  double lora_ms_ = 0;  // since make() was last called: of changing weights, as far as the host waits
};

}  // namespace headroom
