#include <algorithm>

#include "api/impl.hpp"
#include "base/error.hpp"
#include "pipelines/given_pictures.hpp"
#include "pipelines/stages/images.hpp"

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

void Pipeline::set_loras(std::span<const Lora> loras) {
  translated([&] {
    (void)device().impl_->here();
    std::vector<LoraUse> uses;
    for (const Lora& lora : loras) uses.push_back({.file = lora.file, .weight = lora.weight});
    const std::vector<std::string> changed =
        impl_->weights.update_params(impl_->loras.updates(uses, impl_->pipeline->components()));
    if (!changed.empty()) ++impl_->changes;
  });
}

namespace {

/// The pictures of a request by their sizes alone.
GivenPictures prepare_sizes(const headroom::Pipeline& pipeline, std::span<const ImageSize> sizes,
                            const headroom::ImageSize& asked) {
  constexpr std::int64_t kMostPixels = 1 << 16;  // along a side
  check_pictures(pipeline, sizes.size(), "");
  std::vector<headroom::Image> blank;
  for (const ImageSize& size : sizes) {
    if (size.height < 1 || size.width < 1 || size.height > kMostPixels || size.width > kMostPixels)
      fail_usage("a picture has {} x {} pixels, expected 1 to {} along a side", size.width, size.height, kMostPixels);
    blank.push_back(make_image(static_cast<int>(size.width), static_cast<int>(size.height), 3));
  }
  return prepare_pictures(pipeline, blank, asked, "");
}

/// That region of pixels [images, channels, height, width].
HostTensor cropped(const HostTensor& pixels, const ImageRegion& region) {
  const headroom::Shape& shape = pixels.shape();
  HostTensor part(pixels.dtype(), {shape[0], shape[1], region.height, region.width});
  const std::size_t size = size_of(outer(pixels.dtype()));
  const auto row_bytes = static_cast<std::size_t>(region.width) * size;
  std::size_t to = 0;
  for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (std::int64_t y = 0; y < region.height; ++y, to += row_bytes) {
      const std::int64_t from = (plane * shape[2] + region.top + y) * shape[3] + region.left;
      std::ranges::copy(pixels.bytes().subspan(static_cast<std::size_t>(from) * size, row_bytes),
                        part.bytes().begin() + static_cast<std::ptrdiff_t>(to));
    }
  return part;
}

}  // namespace

Generator::Generator(const Pipeline& pipeline, const RequestOptions& options, std::string_view switches)
    : impl_(translated([&] {
        Pipeline::Impl& opened = *pipeline.impl_;
        Backend& backend = opened.device.impl_->here();
        const headroom::ImageSize asked{.height = count("height", options.height),
                                        .width = count("width", options.width)};
        headroom::RequestOptions request{
            .images = options.images,
            .text_tokens = count("text_tokens", options.text_tokens),
            .steps = count("steps", options.steps),
            .guidance_scale = options.guidance_scale,
            .true_cfg_scale = options.true_cfg_scale,
            .has_negative_prompt = options.has_negative_prompt,
            .strength = options.strength,
            .switches = SwitchSet::parse(switches).for_target(backend.properties().target)};
        ImageRegion crop;
        if (options.pictures.empty())
          set_size(*opened.pipeline, asked, "", request);
        else
          crop =
              set_sizes(*opened.pipeline, prepare_sizes(*opened.pipeline, options.pictures, asked), asked, "", request);
        std::unique_ptr<Impl> made(new Impl{.pipeline = pipeline,
                                            .generator = {*opened.pipeline, backend, opened.weights, request},
                                            .declined = {},
                                            .pictures = options.pictures,
                                            .asked = asked,
                                            .crop = crop,
                                            .changes = opened.changes});
        made->declined = outer(made->generator.compiled().declined);
        return made;
      })) {}

headroom::ImageRequest Generator::Impl::with_pictures(const ImageRequest& image) const {
  headroom::ImageRequest request{.label = image.label,
                                 .seed = image.seed,
                                 .prompt = image.prompt,
                                 .prompt_2 = image.prompt_2,
                                 .negative_prompt = image.negative_prompt};
  if (image.pictures.size() != pictures.size())
    fail_usage("an image has {} pictures, expected {}", image.pictures.size(), pictures.size());
  if (pictures.empty()) return request;
  std::vector<headroom::Image> given;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    given.push_back(inner(image.pictures[i]));
    if (given[i].height != pictures[i].height || given[i].width != pictures[i].width)
      fail_usage("picture {} has {} x {} pixels, expected {} x {}", i + 1, given[i].width, given[i].height,
                 pictures[i].width, pictures[i].height);
  }
  const GivenPictures ready = prepare_pictures(*pipeline.impl_->pipeline, given, asked, "");
  for (const headroom::Image& each : ready.prepared.images) request.references.push_back(to_pixels(each));
  return request;
}

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
    if (const std::int64_t changes = pipeline().impl_->changes; impl_->changes != changes) {
      impl_->generator.prompt_reader().forget();
      impl_->changes = changes;
    }
    std::vector<headroom::ImageRequest> requests;
    for (const ImageRequest& image : images) requests.push_back(impl_->with_pictures(image));
    return outer(impl_->generator.generate(requests, observer));
  });
}

Tensor Generator::decode(const TensorView& latents) {
  return translated([&] {
    const headroom::Shape& expected = impl_->generator.latents_shape();
    const HostTensor copy = copy_of(latents);
    if (copy.dtype() != headroom::DType::kF32 || !(copy.shape() == expected))
      fail_usage("the latents are {}{}, expected f32{}", copy.dtype(), copy.shape(), expected);
    const HostTensor pixels = impl_->generator.decode(copy);
    return outer(impl_->crop.is_empty() ? pixels : cropped(pixels, impl_->crop));
  });
}

std::vector<StageTime> Generator::stages() const {
  std::vector<StageTime> times;
  for (const StageRun& stage : impl_->generator.stages())
    times.push_back({.name = std::string(stage.name), .milliseconds = stage.milliseconds});
  return times;
}

}  // namespace headroom::v1
