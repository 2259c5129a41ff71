#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "base/tensors/dtype_code.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/shape.hpp"
#include "media/image.hpp"
#include "pipelines/generator.hpp"
#include "pipelines/stages/reference_images.hpp"
#include "pipelines/streams/frame_stream.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"
#include "run/session/device_tensor.hpp"
#include "run/session/session.hpp"
#include "run/weights/lora.hpp"
#include "run/weights/weight_store.hpp"

#define HEADROOM_INTERNAL
#include "api/headroom.hpp"

/// Implementations of the public handles. Each holds the objects that it was made from.
namespace headroom::v1 {

struct Device::Impl {
  std::unique_ptr<Backend> backend;

  /// The backend, made current for the calling thread.
  [[nodiscard]] Backend& here() const {
    backend->make_current();
    return *backend;
  }
};

struct DeviceTensor::Impl {
  Device device;  // before the memory that it frees
  headroom::DeviceTensor tensor;
};

struct Component::Impl {
  Device device;
  headroom::Component network;
  WeightStore weights;
  std::vector<PassInfo> passes;

  Impl(const Device& on, Backend& backend, headroom::Component opened);
};

struct CompiledPass::Impl {
  Component component;
  ForwardPass pass;
  SwitchSet switches;
  Compiled compiled;
  // In the types of the public interface.
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  std::vector<std::string> switch_names;
  std::vector<Declined> declined;
  std::vector<Launch> launches;

  Impl(Component of, ForwardPass forward, SwitchSet asked, Compiled made);
};

struct Pipeline::Impl {
  Device device;
  std::unique_ptr<headroom::Pipeline> pipeline;
  WeightStore weights;
  std::vector<std::string> labels;
  LoraFiles loras;
  std::int64_t changes = 0;  // of the weights, after which prompts are encoded again

  Impl(const Device& on, Backend& backend, std::unique_ptr<headroom::Pipeline> opened);
};

struct Generator::Impl {
  Pipeline pipeline;
  headroom::Generator generator;
  std::vector<Declined> declined;
  std::vector<ImageSize> pictures;  // of each image, as given
  headroom::ImageSize asked;        // 0 for a side that is left to the pipeline
  ImageRegion crop;                 // of the pixels; empty: all of them
  std::int64_t changes;             // Pipeline::Impl::changes that its prompts were encoded under

  /// The image with what the pipeline encodes of its pictures. Throws a usage Error for others than `pictures`.
  [[nodiscard]] headroom::ImageRequest with_pictures(const ImageRequest& image) const;
};

struct Session::Impl {
  CompiledPass pass;
  headroom::Session session;
  bool has_run = false;

  /// The inner session, with its backend made current for the calling thread.
  [[nodiscard]] headroom::Session& here();
  /// Throws Error before the first run.
  void require_output(std::string_view name) const;
};

struct FrameStream::Impl {
  Device device;
  std::shared_ptr<const void> source;  // the pipeline or network, which has the weights
  std::unique_ptr<StreamModel> model;
  std::unique_ptr<headroom::FrameStream> stream;
  std::unique_ptr<headroom::FrameStream::Slot> slot;
  std::vector<Declined> declined;
  bool has_begun = false;

  Impl(Device on, std::shared_ptr<const void> from, std::unique_ptr<StreamModel> frames, WeightStore& weights,
       const FrameOptions& options, std::string_view switches);
};

/// 0 if it is not given: the pipeline then decides. Throws a usage Error for an invalid count.
[[nodiscard]] std::int64_t count(std::string_view what, const std::optional<std::int64_t>& given);
/// The dtype of a network's baseline. Throws a usage Error for an unsupported one.
[[nodiscard]] headroom::DType baseline_on(const Backend& backend, const ComponentOptions& options,
                                          const Checkpoint& checkpoint);
/// In the types of the public interface.
[[nodiscard]] std::vector<Declined> outer(const std::vector<headroom::Declined>& declined);
/// Throws Error unless it has pixels, a byte for each.
[[nodiscard]] headroom::Image inner(const Image& image);
/// Copies the elements.
[[nodiscard]] Tensor outer(const HostTensor& tensor);
[[nodiscard]] HostTensor copy_of(const TensorView& view);

[[nodiscard]] constexpr headroom::DType inner(DType dtype) { return static_cast<headroom::DType>(dtype); }
[[nodiscard]] constexpr DType outer(headroom::DType dtype) { return static_cast<DType>(dtype); }
/// Throws Error for too many axes and for negative extents.
[[nodiscard]] headroom::Shape inner(const Shape& shape);
[[nodiscard]] Shape outer(const headroom::Shape& shape);

/// Rethrows the exception that is being handled; an inner Error becomes the public Error.
[[noreturn]] void rethrow_outer();

/// Calls `body` and returns its result; inner Errors become public Errors.
template <class Body>
auto translated(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    rethrow_outer();
  }
}

}  // namespace headroom::v1
