#include <algorithm>

#include "api/impl.hpp"
#include "base/error.hpp"
#include "base/switches.hpp"
#include "pipelines/streams/stream_model.hpp"

namespace headroom::v1 {
namespace {

StreamOptions inner(const FrameOptions& options, headroom::ImageSize own_size, SwitchSet switches) {
  if (options.height < 0 || options.width < 0)
    fail_usage("frames of {} x {} pixels were asked for, expected at least 1 x 1, or 0 for the model's size",
               options.width, options.height);
  return {.size = {.height = options.height == 0 ? own_size.height : options.height,
                   .width = options.width == 0 ? own_size.width : options.width},
          .steps = count("steps", options.steps),
          .strength = options.strength,
          .guidance_scale = options.guidance_scale,
          .text_tokens = count("text_tokens", options.text_tokens),
          .prompt = options.prompt,
          .negative_prompt = options.negative_prompt,
          .seed = options.seed,
          .switches = std::move(switches)};
}

}  // namespace

FrameStream::Impl::Impl(Device on, std::shared_ptr<const void> from, std::unique_ptr<StreamModel> frames,
                        WeightStore& weights, const FrameOptions& options, std::string_view switches)
    : device(std::move(on)), source(std::move(from)), model(std::move(frames)) {
  Backend& backend = device.impl_->here();
  stream = std::make_unique<headroom::FrameStream>(
      *model, backend, weights,
      inner(options, model->own_size(), SwitchSet::parse(switches).for_target(backend.properties().target)));
  slot = stream->make_slot();
  stream->warm_up(*slot);
  declined = outer(stream->compiled().declined);
}

FrameStream::FrameStream(const Pipeline& pipeline, const FrameOptions& options, std::string_view switches)
    : impl_(translated([&] {
        Pipeline::Impl& opened = *pipeline.impl_;
        return std::make_unique<Impl>(opened.device, pipeline.impl_, make_stream_model(*opened.pipeline),
                                      opened.weights, options, switches);
      })) {}

FrameStream::FrameStream(const Component& network, const FrameOptions& options, std::string_view switches)
    : impl_(translated([&] {
        Component::Impl& opened = *network.impl_;
        return std::make_unique<Impl>(opened.device, network.impl_, make_stream_model(opened.network), opened.weights,
                                      options, switches);
      })) {}

FrameStream::~FrameStream() = default;
FrameStream::FrameStream(FrameStream&& other) noexcept = default;
FrameStream& FrameStream::operator=(FrameStream&& other) noexcept = default;

const Device& FrameStream::device() const { return impl_->device; }
std::int64_t FrameStream::height() const { return impl_->stream->request().size.height; }
std::int64_t FrameStream::width() const { return impl_->stream->request().size.width; }
const std::vector<std::string>& FrameStream::applied() const { return impl_->stream->compiled().applied; }
const std::vector<Declined>& FrameStream::declined() const { return impl_->declined; }
std::int64_t FrameStream::delay() const { return impl_->stream->delay(); }

Image FrameStream::next(std::span<const std::uint8_t> frame) {
  return translated([&] {
    headroom::FrameStream& stream = *impl_->stream;
    if (frame.size() != stream.frame_bytes())
      fail("a frame has {} bytes, expected {} of [{}, {}, 3]", frame.size(), stream.frame_bytes(), height(), width());
    (void)impl_->device.impl_->here();
    headroom::FrameStream::Slot& slot = *impl_->slot;
    std::ranges::copy(frame, slot.in().begin());
    if (!impl_->has_begun) stream.begin(frame);
    impl_->has_begun = true;
    stream.submit(slot);
    stream.wait(slot);
    return Image{.width = static_cast<int>(width()),
                 .height = static_cast<int>(height()),
                 .channels = 3,
                 .pixels = {slot.out().begin(), slot.out().end()}};
  });
}

void FrameStream::restart() { impl_->has_begun = false; }

}  // namespace headroom::v1
