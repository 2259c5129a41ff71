#include "pictures.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "networks.hpp"
#include "tensor.hpp"
#include "whole.hpp"

namespace headroom::python {

using namespace nb::literals;

namespace {

using PyPipeline = Owned<Pipeline>;
using PyGenerator = Owned<Generator>;
using PyStream = Owned<FrameStream>;

template <class T>
std::map<std::string, std::string> declined_of(const T& object) {
  std::map<std::string, std::string> declined;
  for (const Declined& one : object.declined()) declined.emplace(one.switch_name, one.reason);
  return declined;
}

/// Reports steps to Python, and ends the loop where Ctrl-C was pressed or the callback raises.
StepObserver observer_of(const nb::object& callback) {
  return [&callback](std::int64_t step, double milliseconds) {
    const nb::gil_scoped_acquire with_lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!callback.is_none()) callback(step, milliseconds);
  };
}

/// A dense view of f32 elements on the host.
TensorView floats_of(const PyTensor& tensor, const char* what) {
  if (!tensor.is_on_host() || !tensor.is_dense() || tensor.dtype() != DType::kF32)
    throw Error(std::string(what) + " are " + std::string(name_of(tensor.dtype())) + to_string(tensor.shape()) +
                    ", expected dense f32 in host memory",
                Error::Kind::kFailed);
  return tensor.view();
}

/// A copy of bytes [height, width, channels] in host memory.
Image image_of(const nb::object& pixels) {
  const PyTensor tensor = PyTensor::from(pixels, std::nullopt);
  const Shape& shape = tensor.shape();
  if (tensor.dtype() != DType::kU8 || shape.size() != 3 || !tensor.is_on_host())
    throw Error("the pixels are " + std::string(name_of(tensor.dtype())) + to_string(shape) +
                    ", expected u8[height, width, channels] in host memory",
                Error::Kind::kFailed);
  const PyTensor dense = tensor.is_dense() ? tensor : tensor.copy();
  const auto* const bytes = static_cast<const std::uint8_t*>(dense.data());
  return {.width = static_cast<int>(shape[1]),
          .height = static_cast<int>(shape[0]),
          .channels = static_cast<int>(shape[2]),
          .pixels = {bytes, bytes + dense.bytes()}};
}

/// Refuses a name that promises another format than PNG; a name without a suffix promises none.
void save_png(const Image& image, const std::filesystem::path& path) {
  const std::string suffix = path.extension().string();
  std::string lower = suffix;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!lower.empty() && lower != ".png")
    throw Error("'" + path.string() + "' ends in " + suffix + "; what can be written: .png", Error::Kind::kUsage);
  write_png(path, image);
}

void bind_image(nb::module_& module) {
  nb::class_<Image>(module, "Image", "An 8-bit image: [height, width, channels]; 1 channel is gray, 3 are RGB.")
      .def(
          "__init__", [](Image* self, const nb::object& pixels) { new (self) Image(image_of(pixels)); }, "pixels"_a,
          nb::sig("def __init__(self, pixels: typing.Any) -> None"), "Copies bytes [height, width, channels].")
      .def_ro("width", &Image::width)
      .def_ro("height", &Image::height)
      .def_ro("channels", &Image::channels)
      .def(
          "tensor",
          [](const Image& self) {
            Tensor pixels(DType::kU8, {self.height, self.width, self.channels});
            std::ranges::copy(std::as_bytes(std::span(self.pixels)), pixels.bytes().begin());
            return PyTensor::of(std::move(pixels));
          },
          "A copy of the pixels, u8 [height, width, channels].")
      .def("save", &save_png, "path"_a, nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
           nb::call_guard<nb::gil_scoped_release>(), "Writes a PNG, which appears complete or not at all.")
      .def(
          "png",
          [](const Image& self) {
            std::string bytes;
            {
              const nb::gil_scoped_release without_lock;
              bytes = encode_png(self);
            }
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The bytes of a PNG file.")
      .def(
          "__eq__",
          [](const Image& self, const nb::object& other) {
            if (!nb::isinstance<Image>(other)) return false;
            const auto& image = nb::cast<const Image&>(other);
            return self.width == image.width && self.channels == image.channels && self.pixels == image.pixels;
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__repr__", [](const Image& self) {
        return "headroom.Image(" + std::to_string(self.width) + " x " + std::to_string(self.height) +
               (self.channels == 1 ? ", gray)" : ", RGB)");
      });
}

void bind_pipeline(nb::module_& module) {
  nb::class_<PyPipeline>(module, "_Pipeline")
      .def(
          "__init__",
          [](PyPipeline* self, const std::filesystem::path& model, const nb::object& device,
             OptionalWhole<std::uint64_t, "random_weights"> random_weights,
             const std::optional<std::string>& baseline) {
            const PyDevice on = device_of(device);
            const ComponentOptions options = options_of(random_weights, baseline);
            new (self) PyPipeline("pipeline", on, [&] { return Pipeline(on.device, model.string(), options); });
          },
          "model"_a, "device"_a = "auto", nb::kw_only(), "random_weights"_a = nb::none(), "baseline"_a = nb::none(),
          nb::sig("def __init__(self, model: str | os.PathLike[str], device: Device | str = 'auto', *, "
                  "random_weights: int | None = None, baseline: str | None = None) -> None"))
      .def_prop_ro("name", [](const PyPipeline& self) { return self.peek().name(); })
      .def_prop_ro("device", [](const PyPipeline& self) { return self.device(); })
      .def_prop_ro(
          "labels", [](const PyPipeline& self) { return self.peek().labels(); },
          "Names of its own prompts; empty if it has none.")
      .def_prop_ro(
          "has_pixels", [](const PyPipeline& self) { return self.peek().has_pixels(); },
          "Whether it decodes latents to pixels.")
      .def_prop_ro(
          "weight_bytes", [](PyPipeline& self) { return self.call([](Pipeline& p) { return p.weight_bytes(); }); },
          "Bytes of its weights on the device.")
      .def(
          "_set_loras",
          [](PyPipeline& self, const std::vector<std::pair<std::string, double>>& loras) {
            std::vector<Lora> given;
            for (const auto& [file, weight] : loras) given.push_back({.file = file, .weight = weight});
            self.call([&](Pipeline& pipeline) { pipeline.set_loras(given); });
          },
          "loras"_a);
  nb::class_<PyGenerator>(module, "_Generator")
      .def(
          "__init__",
          [](PyGenerator* self, PyPipeline& pipeline, Whole<std::int64_t, "images"> images,
             OptionalWhole<std::int64_t, "height"> height, OptionalWhole<std::int64_t, "width"> width,
             OptionalWhole<std::int64_t, "steps"> steps, OptionalWhole<std::int64_t, "text_tokens"> text_tokens,
             std::optional<double> guidance_scale, std::optional<double> true_cfg_scale, bool has_negative_prompt,
             const std::vector<std::pair<std::int64_t, std::int64_t>>& pictures, std::optional<double> strength,
             const std::string& optimize) {
            std::vector<ImageSize> sizes;
            for (const auto& [rows, columns] : pictures) sizes.push_back({.height = rows, .width = columns});
            const RequestOptions options{.images = images,
                                         .height = height,
                                         .width = width,
                                         .steps = steps,
                                         .text_tokens = text_tokens,
                                         .guidance_scale = guidance_scale,
                                         .true_cfg_scale = true_cfg_scale,
                                         .has_negative_prompt = has_negative_prompt,
                                         .pictures = std::move(sizes),
                                         .strength = strength};
            new (self) PyGenerator("generator", pipeline.device(),
                                   [&] { return Generator(pipeline.peek(), options, optimize); });
          },
          "pipeline"_a, nb::kw_only(), "images"_a = 1, "height"_a = nb::none(), "width"_a = nb::none(),
          "steps"_a = nb::none(), "text_tokens"_a = nb::none(), "guidance_scale"_a = nb::none(),
          "true_cfg_scale"_a = nb::none(), "has_negative_prompt"_a = false,
          "pictures"_a = std::vector<std::pair<std::int64_t, std::int64_t>>(), "strength"_a = nb::none(),
          "optimize"_a = "lossless")
      .def_prop_ro("device", [](const PyGenerator& self) { return self.device(); })
      .def_prop_ro(
          "applied", [](const PyGenerator& self) { return self.peek().applied(); },
          "The requested switches that changed something.")
      .def_prop_ro(
          "declined", [](const PyGenerator& self) { return declined_of(self.peek()); },
          "The requested switches that could not apply, with the reasons.")
      .def(
          "_generate",
          [](PyGenerator& self, const std::vector<ImageRequest>& requests, const nb::object& callback) {
            const StepObserver observer = observer_of(callback);
            return PyTensor::of(
                self.call([&](Generator& generator) { return generator.generate(requests, observer); }));
          },
          "requests"_a, "callback"_a = nb::none())
      .def(
          "decode",
          [](PyGenerator& self, const PyTensor& latents) {
            const TensorView view = floats_of(latents, "the latents");
            return PyTensor::of(self.call([&](Generator& generator) { return generator.decode(view); }));
          },
          "latents"_a, "Pixels f32 [images, channels, height, width] of latents: white is 1 and black -1.")
      .def_prop_ro(
          "stages",
          [](PyGenerator& self) {
            std::vector<std::pair<std::string, double>> stages;
            for (const StageTime& stage : self.call([](Generator& generator) { return generator.stages(); }))
              stages.emplace_back(stage.name, stage.milliseconds);
            return stages;
          },
          "Names and milliseconds of the stages that ran since the last generation began, in order.");
  nb::class_<ImageRequest>(module, "_ImageRequest")
      .def(
          "__init__",
          [](ImageRequest* self, Whole<std::int64_t, "label"> label, Whole<std::uint64_t, "seed"> seed,
             std::optional<std::string> prompt, std::optional<std::string> negative_prompt,
             std::optional<std::string> prompt_2, std::vector<Image> pictures) {
            new (self) ImageRequest{.label = label,
                                    .seed = seed,
                                    .prompt = std::move(prompt),
                                    .negative_prompt = std::move(negative_prompt),
                                    .prompt_2 = std::move(prompt_2),
                                    .pictures = std::move(pictures)};
          },
          "label"_a, "seed"_a, "prompt"_a.none(), "negative_prompt"_a.none(), "prompt_2"_a.none(), "pictures"_a);
  module.def(
      "read_image",
      [](const std::filesystem::path& path) {
        const nb::gil_scoped_release without_lock;
        return read_image(path);
      },
      "path"_a, nb::sig("def read_image(path: str | os.PathLike[str]) -> Image"),
      "The RGB pixels of a PNG or JPEG file, upright.");
  module.def(
      "to_images",
      [](const PyTensor& pixels) {
        const TensorView view = floats_of(pixels, "the pixels");
        const nb::gil_scoped_release without_lock;
        return to_images(view);
      },
      "pixels"_a, "Images of Generator.decode(), clamped to black and white.");
}

void bind_stream(nb::module_& module) {
  nb::class_<PyStream>(module, "Stream",
                       "A model that makes each frame of a video anew, compiled for frames of one size.")
      .def(
          "__init__",
          [](PyStream* self, const nb::object& model, Whole<std::int64_t, "height"> height,
             Whole<std::int64_t, "width"> width, OptionalWhole<std::int64_t, "steps"> steps,
             std::optional<double> strength, std::optional<double> guidance_scale,
             OptionalWhole<std::int64_t, "text_tokens"> text_tokens, const std::string& prompt,
             const std::string& negative_prompt, Whole<std::uint64_t, "seed"> seed, const std::string& optimize) {
            const FrameOptions options{.height = height,
                                       .width = width,
                                       .steps = steps,
                                       .strength = strength,
                                       .guidance_scale = guidance_scale,
                                       .text_tokens = text_tokens,
                                       .prompt = prompt,
                                       .negative_prompt = negative_prompt,
                                       .seed = seed};
            if (nb::isinstance<PyPipeline>(model)) {
              const auto& pipeline = nb::cast<const PyPipeline&>(model);
              new (self) PyStream("stream", pipeline.device(),
                                  [&] { return FrameStream(pipeline.peek(), options, optimize); });
            } else {
              const auto& network = nb::cast<const PyComponent&>(model);
              new (self)
                  PyStream("stream", network.device(), [&] { return FrameStream(network.peek(), options, optimize); });
            }
          },
          "model"_a, nb::kw_only(), "height"_a = 0, "width"_a = 0, "steps"_a = nb::none(), "strength"_a = nb::none(),
          "guidance_scale"_a = nb::none(), "text_tokens"_a = nb::none(), "prompt"_a = "", "negative_prompt"_a = "",
          "seed"_a = 0, "optimize"_a = "lossless",
          nb::sig("def __init__(self, model: _Pipeline | Component, *, height: int = 0, width: int = 0, "
                  "steps: int | None = None, strength: float | None = None, guidance_scale: float | None = None, "
                  "text_tokens: int | None = None, prompt: str = '', negative_prompt: str = '', seed: int = 0, "
                  "optimize: str = 'lossless') -> None"),
          "The stream of a pipeline whose loop starts from each frame, or of a network that reads frames ('live-ink'). "
          "Without a size it takes the model's.")
      .def_prop_ro("device", [](const PyStream& self) { return self.device(); })
      .def_prop_ro("height", [](const PyStream& self) { return self.peek().height(); })
      .def_prop_ro("width", [](const PyStream& self) { return self.peek().width(); })
      .def_prop_ro(
          "delay", [](const PyStream& self) { return self.peek().delay(); },
          "The number of frames by which the result lags.")
      .def_prop_ro(
          "applied", [](const PyStream& self) { return self.peek().applied(); },
          "The requested switches that changed something.")
      .def_prop_ro(
          "declined", [](const PyStream& self) { return declined_of(self.peek()); },
          "The requested switches that could not apply, with the reasons.")
      .def(
          "next",
          [](PyStream& self, const nb::object& given) {
            const Image frame = nb::isinstance<Image>(given) ? nb::cast<Image>(given) : image_of(given);
            const FrameStream& stream = self.peek();
            if (frame.channels != 3 || frame.width != stream.width() || frame.height != stream.height())
              throw Error("a frame has " + std::to_string(frame.width) + " x " + std::to_string(frame.height) +
                              " pixels and " + std::to_string(frame.channels) + " channels, expected " +
                              std::to_string(stream.width()) + " x " + std::to_string(stream.height()) + " and 3",
                          Error::Kind::kFailed);
            return self.call([&](FrameStream& frames) { return frames.next(frame.pixels); });
          },
          "frame"_a, nb::sig("def next(self, frame: typing.Any) -> Image"),
          "The result for the frame given `delay` calls before. A frame is an Image, or bytes [height, width, 3]. The "
          "first call, and the first after restart(), starts the stream.")
      .def("restart", [](PyStream& self) { self.call([](FrameStream& stream) { stream.restart(); }); });
}

}  // namespace

void bind_pictures(nb::module_& module) {
  bind_image(module);
  bind_pipeline(module);
  bind_stream(module);
}

}  // namespace headroom::python
