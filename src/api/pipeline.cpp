#include "api/impl.hpp"
#include "base/error.hpp"

namespace headroom::v1 {
std::int64_t count(std::string_view what, const std::optional<std::int64_t>& given) {
  if (given && *given < 1) fail_usage("{} is {}, expected at least 1", what, *given);
  return given.value_or(0);
}

Pipeline::Impl::Impl(const Device& on, Backend& backend, std::unique_ptr<headroom::Pipeline> opened)
    : device(on), pipeline(std::move(opened)), weights(backend, pipeline->components()) {
  labels.assign(pipeline->labels().begin(), pipeline->labels().end());
}

Pipeline::Pipeline(const Device& device, const std::string& name_or_folder, const ComponentOptions& options)
    : impl_(translated([&] {
        Backend& backend = device.impl_->here();
        std::unique_ptr<headroom::Pipeline> pipeline =
            open_pipeline(name_or_folder, {.random_seed = options.random_seed});
        pipeline->choose_baselines(
            [&](const Checkpoint& checkpoint) { return baseline_on(backend, options, checkpoint); });
        return std::make_shared<Impl>(device, backend, std::move(pipeline));
      })) {}

std::string Pipeline::name() const { return impl_->pipeline->name(); }
const Device& Pipeline::device() const { return impl_->device; }
const std::vector<std::string>& Pipeline::labels() const { return impl_->labels; }
bool Pipeline::has_pixels() const { return impl_->pipeline->obstacle_to_images().empty(); }
std::size_t Pipeline::weight_bytes() const { return impl_->weights.bytes(); }

Generator::Generator(const Pipeline& pipeline, const RequestOptions& options, std::string_view switches)
    : impl_(translated([&] {
        Pipeline::Impl& opened = *pipeline.impl_;
        Backend& backend = opened.device.impl_->here();
        const headroom::RequestOptions asked{
            .images = options.images,
            .token_rows = tokens_along(*opened.pipeline, "height", count("height", options.height)),
            .token_columns = tokens_along(*opened.pipeline, "width", count("width", options.width)),
            .text_tokens = count("text_tokens", options.text_tokens),
            .steps = count("steps", options.steps),
            .guidance_scale = options.guidance_scale,
            .true_cfg_scale = options.true_cfg_scale,
            .has_negative_prompt = options.has_negative_prompt,
            .switches = SwitchSet::parse(switches).for_target(backend.properties().target)};
        std::unique_ptr<Impl> made(new Impl{
            .pipeline = pipeline, .generator = {*opened.pipeline, backend, opened.weights, asked}, .declined = {}});
        made->declined = outer(made->generator.compiled().declined);
        return made;
      })) {}

Generator::~Generator() = default;
Generator::Generator(Generator&& other) noexcept = default;
Generator& Generator::operator=(Generator&& other) noexcept = default;

const Pipeline& Generator::pipeline() const { return impl_->pipeline; }
const std::vector<std::string>& Generator::applied() const { return impl_->generator.compiled().applied; }
const std::vector<Declined>& Generator::declined() const { return impl_->declined; }

Tensor Generator::generate(std::span<const ImageRequest> images, const StepObserver& observer) {
  return translated([&] {
    const std::int64_t expected = impl_->generator.request().images;
    if (std::ssize(images) != expected) fail_usage("{} images were asked for, expected {}", images.size(), expected);
    (void)pipeline().device().impl_->here();
    std::vector<headroom::ImageRequest> requests;
    for (const ImageRequest& image : images)
      requests.push_back({.label = image.label,
                          .seed = image.seed,
                          .prompt = image.prompt,
                          .prompt_2 = image.prompt_2,
                          .negative_prompt = image.negative_prompt});
    return outer(impl_->generator.generate(requests, observer));
  });
}

Tensor Generator::decode(const TensorView& latents) {
  return translated([&] {
    const headroom::Shape& expected = impl_->generator.latents_shape();
    const HostTensor copy = copy_of(latents);
    if (copy.dtype() != headroom::DType::kF32 || !(copy.shape() == expected))
      fail_usage("the latents are {}{}, expected f32{}", copy.dtype(), copy.shape(), expected);
    return outer(impl_->generator.decode(copy));
  });
}

std::vector<StageTime> Generator::stages() const {
  std::vector<StageTime> times;
  for (const StageRun& stage : impl_->generator.stages())
    times.push_back({.name = std::string(stage.name), .milliseconds = stage.milliseconds});
  return times;
}

}  // namespace headroom::v1
