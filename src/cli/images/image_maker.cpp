#include "cli/images/image_maker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/safetensors.hpp"
#include "media/read_image.hpp"
#include "pipelines/given_pictures.hpp"
#include "pipelines/stages/images.hpp"
#include "text/unicode.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kTokensTogether = 4096;  // the tokens of one image of 1024 x 1024; more do not speed up a GPU

/// The single tensor of a file, f32.
HostTensor read_noise(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  if (file.entries().size() != 1)
    fail("{} holds {} tensors, expected one: the noise that an image begins with", path, file.entries().size());
  HostTensor noise = convert(file.read(file.entries().begin()->first), DType::kF32);
  if (noise.shape().rank() < 3 || noise.shape()[0] != 1) return noise;
  HostTensor of_one(DType::kF32, Shape(noise.shape().dims().subspan(1)));  // a batch of one, as diffusers stores it
  std::ranges::copy(noise.bytes(), of_one.bytes().begin());
  return of_one;
}

}  // namespace

PreparedImage prepare(const Pipeline& pipeline, const ImageJob& job, const SwitchSet& switches) {
  if (job.prompt && pipeline.text_readers().empty()) fail_usage("{} reads no text", pipeline.name());
  for (const auto& [what, text] : {std::pair("the prompt", &job.prompt),
                                   {"the second prompt", &job.prompt_2},
                                   {"the negative prompt", &job.negative_prompt}})
    if (*text) check_utf8(**text, what);
  PreparedImage prepared{.options = {.text_tokens = job.text_tokens,
                                     .steps = job.steps,
                                     .guidance_scale = job.guidance,
                                     .true_cfg_scale = job.true_cfg_scale,
                                     .has_negative_prompt = job.negative_prompt.has_value(),
                                     .strength = job.strength,
                                     .switches = switches},
                         .image = {.label = job.label,
                                   .seed = job.seed,
                                   .prompt = job.prompt,
                                   .prompt_2 = job.prompt_2,
                                   .negative_prompt = job.negative_prompt},
                         .loras = job.loras};
  if (!job.noise.empty()) prepared.image.noise = read_noise(job.noise);
  constexpr std::string_view kPrefix = "--";
  if (job.images.empty()) {
    set_size(pipeline, job.size, kPrefix, prepared.options);
    return prepared;
  }
  check_pictures(pipeline, job.images.size(), kPrefix);  // before any is read
  std::vector<Image> pictures;
  for (const std::string& path : job.images) pictures.push_back(read_image(path));
  const GivenPictures given = prepare_pictures(pipeline, pictures, job.size, kPrefix);
  prepared.crop = set_sizes(pipeline, given, job.size, kPrefix, prepared.options);
  for (const Image& image : given.prepared.images) prepared.image.references.push_back(to_pixels(image));
  return prepared;
}

std::vector<std::string> tell_cut_texts(const Pipeline& pipeline, const PreparedImage& prepared) {
  const Request request = pipeline.resolve(prepared.options);
  std::vector<std::string> notes;
  const std::span<const TextReader> readers = pipeline.text_readers();
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const std::int64_t most = readers[i].tokens != 0 ? readers[i].tokens : request.text_tokens;
    const auto tell = [&](std::string_view which, const std::string& text) {
      if (const std::int64_t count = readers[i].count_tokens(text); count > most)
        notes.push_back(fmt::format("{} reads {} of the {} tokens of the {}", readers[i].encoder, most, count, which));
    };
    tell("prompt", prompt_of(pipeline, prepared.image, i));
    if (const auto negative = negative_prompt_of(prepared.image, i); negative && request.classifier_free_guidance)
      tell("negative prompt", *negative);
  }
  return notes;
}

bool is_seed_idle(const Pipeline& pipeline, const PreparedImage& prepared) {
  return prepared.image.noise.numel() != 0 && !pipeline.sampler_tables(pipeline.resolve(prepared.options)).uses_noise();
}

ImageMaker::ImageMaker(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit,
                       NewWork after_the_first)
    : pipeline_(*engine.pipeline),
      pool_(*engine.pipeline, *engine.backend, *engine.weights, switches, memory_limit, after_the_first) {}

std::size_t ImageMaker::count_together(std::span<const PreparedImage> jobs, std::int64_t batch) const {
  const Request first = pipeline_.resolve(jobs.front().options);
  const std::int64_t most =
      batch != 0 ? batch
                 : std::max<std::int64_t>(1, kTokensTogether / (first.image_tokens() + first.reference_tokens()));
  std::size_t count = 1;
  while (count < std::min(jobs.size(), static_cast<std::size_t>(most)) &&
         pipeline_.resolve(jobs[count].options) == first && jobs[count].loras == jobs.front().loras)
    ++count;
  return count;
}

Generator& ImageMaker::generator(std::span<const PreparedImage> jobs) {
  RequestOptions options = jobs.front().options;
  options.images = std::ssize(jobs);
  std::vector<ImageRequest> images;
  for (const auto& [of_one, image, loras, crop] : jobs)
    images.push_back({.label = image.label, .prompt = image.prompt, .negative_prompt = image.negative_prompt});
  options.text_lengths = pipeline_.text_lengths(pipeline_.resolve(options), images);
  const auto start = std::chrono::steady_clock::now();
  const bool is_changed = pool_.update_params(loras_.updates(jobs.front().loras, pipeline_.components()));
  if (is_changed) lora_ms_ += milliseconds_since(start);
  return pool_.get(options);
}

MadeImages ImageMaker::make(std::span<const PreparedImage> jobs, const std::function<void()>& on_step) {
  Generator& generator = this->generator(jobs);
  std::vector<ImageRequest> images;
  for (const PreparedImage& job : jobs) images.push_back(job.image);
  MadeImages made;
  const HostTensor latents = generator.generate(images, [&](std::int64_t, double ms) {
    made.step_ms.push_back(ms);
    if (on_step) on_step();
  });
  made.computed_steps = generator.computed_steps();
  made.images = to_images(generator.decode(latents));
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (!jobs[i].crop.is_empty()) made.images[i] = cut_out(made.images[i], jobs[i].crop);
  if (const double ms = std::exchange(lora_ms_, 0); ms != 0)
    made.stages.push_back({.name = "lora", .milliseconds = ms});
  made.stages.insert(made.stages.end(), generator.stages().begin(), generator.stages().end());
  return made;
}

}  // namespace headroom
