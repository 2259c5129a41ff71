#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Headroom as a library: open a network, compile one of its passes for shapes and under named optimizations
/// ("switches"), run it, and see where the time goes.
///
///     const headroom::Component network(headroom::Device("cpu"), "path/to/transformer");
///     const auto shapes = network.input_shapes("forward", {.height = 512, .width = 512});
///     const headroom::CompiledPass pass = network.compile("forward", shapes, "lossless");
///     headroom::Session session(pass);
///     for (const auto& [name, tensor] : tensors) session.set_input(name, tensor);
///     session.run();
///     const headroom::Tensor sample = session.output("sample");
///
/// or make images with a whole pipeline:
///
///     headroom::Generator generator(headroom::Pipeline(headroom::Device("cpu"), "path/to/model"), {.images = 2});
///     const headroom::ImageRequest requests[] = {{.label = 7, .seed = 1}, {.label = 8, .seed = 2}};
///     const headroom::Tensor pixels = generator.decode(generator.generate(requests));
///     headroom::write_png("sneaker.png", headroom::to_images(pixels).front());
///
/// Ownership. Device, Component, CompiledPass and Pipeline are handles: a copy costs a pointer and refers to the same
/// object. Each handle keeps alive the object that it was made from. References that a handle returns are valid as
/// long as the handle is. A Session or Generator owns its device memory.
///
/// Errors. Invalid arguments, files and devices are reported by an Error, whose message is one sentence for a person.
/// A std::logic_error is a fault in the library. Objects stay valid after an Error. A session whose run() failed has
/// no outputs until a run succeeds.
///
/// Threads. Any thread may use a device and the objects made from it, but only one thread at a time. CPU kernels run
/// on a team of threads that spin while they wait for each other. On a machine that other processes use too, start
/// the program with OMP_WAIT_POLICY=passive or GOMP_SPINCOUNT=20000. The OpenMP runtime reads these variables when it
/// is loaded.
namespace headroom {

// Applications write headroom::Device. The library's own sources have inner types of the same names, so they write
// headroom::v1::Device.
#ifdef HEADROOM_INTERNAL
namespace v1 {
#else
inline namespace v1 {
#endif

/// Version of the loaded library: "0.1.0".
[[nodiscard]] std::string_view version() noexcept;

/// A failure that the caller or the user of the program can correct.
class Error : public std::runtime_error {
 public:
  /// Values are the exit codes of the program `headroom`.
  enum class Kind : int {
    kFailed = 1,  ///< an invalid file, checkpoint, tensor or device
    kUsage = 2,   ///< an invalid request: an unknown name or switch, or an unsupported size
  };
  Error(const std::string& message, Kind kind);
  ~Error() override;
  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// The device or the host lacks memory. A smaller request may still fit.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message);
  ~OutOfMemory() override;
};

enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI64, kI32, kI8, kU8, kBool };
/// "f32", "bf16"
[[nodiscard]] std::string_view name_of(DType dtype);
/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);

/// Extents of a tensor, outermost first, at most 8 of them.
using Shape = std::vector<std::int64_t>;
/// "[2, 256, 4]"
[[nodiscard]] std::string to_string(const Shape& shape);

/// A read-only view of the caller's elements: dense, row-major, in host memory, of any alignment.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};
/// A view of f32 elements. Throws Error if their number differs from that of the shape.
[[nodiscard]] TensorView view_of(Shape shape, std::span<const float> elements);

/// A dense row-major tensor in host memory that owns its elements.
class Tensor {
 public:
  /// Zero-initialized.
  Tensor(DType dtype, Shape shape);

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The elements of an f32 tensor. Throws Error for any other dtype.
  [[nodiscard]] std::span<float> floats();
  [[nodiscard]] std::span<const float> floats() const;

  // NOLINTNEXTLINE(google-explicit-constructor): a tensor may be passed wherever a view is read
  operator TensorView() const { return {dtype_, shape_, bytes_}; }

 private:
  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

/// ||actual - expected||_2 / ||expected||_2 over all elements, for any dtypes. 0 if all elements are equal, infinite if
/// only `expected` is all zeros, NaN if any element is NaN. Throws Error if the shapes differ.
[[nodiscard]] double relative_l2(const TensorView& actual, const TensorView& expected);

/// Memory in bytes. On a CPU: the machine's memory, within the limits that the system sets for this process.
struct MemoryUse {
  std::size_t installed = 0;
  std::size_t available = 0;  ///< not in use by any process
  std::size_t used = 0;       ///< by this Device and all objects made from it
  std::size_t peak = 0;       ///< the maximum of `used` so far
};

/// A dense row-major tensor in memory of a device, which it owns.
class DeviceTensor;

/// A CPU or GPU that runs networks.
class Device {
 public:
  /// `name` is "cpu", "cuda" (the first GPU), "cuda:N" or "auto": the first usable GPU, otherwise the CPU. `threads`
  /// applies to a CPU; 0 uses all CPUs in the affinity mask of the process. Throws Error with the reason if the
  /// device does not exist or is not usable.
  explicit Device(const std::string& name = "auto", int threads = 0);

  /// "cpu", "cuda:0"
  [[nodiscard]] std::string name() const;
  /// The vendor's name: "AMD EPYC 9R14", "NVIDIA H200"
  [[nodiscard]] std::string description() const;
  /// CPU threads that kernels use; 1 for a GPU.
  [[nodiscard]] int threads() const;
  [[nodiscard]] MemoryUse memory() const;
  /// The alignment in bytes of memory that a session may bind.
  [[nodiscard]] std::size_t alignment() const;
  /// On a GPU: work submitted to the cudaStream_t `after` from now on runs after all work submitted to `before` so
  /// far. The host does not wait. Nothing on a CPU.
  void order(void* before, void* after) const;

  struct Impl;

 private:
  friend class Component;
  friend class Session;
  friend class Pipeline;
  friend class Generator;
  friend class FrameStream;
  friend class DeviceTensor;
  friend struct MeasuredOn;
  std::shared_ptr<Impl> impl_;
};

class DeviceTensor {
 public:
  [[nodiscard]] const Device& device() const;
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] Shape shape() const;
  [[nodiscard]] std::size_t bytes() const;
  /// Its address on the device; on a CPU in the memory of the process.
  [[nodiscard]] void* data() const;
  /// A copy on the host.
  [[nodiscard]] Tensor to_host() const;

  struct Impl;

 private:
  friend class Session;
  explicit DeviceTensor(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// A network that can be opened by name.
struct ShippedModel {
  std::string name;  ///< "tiny-dit"
  std::string description;
  std::filesystem::path folder;  ///< empty for a configuration without a checkpoint, which takes random weights
  std::int64_t parameters = 0;
};
[[nodiscard]] std::vector<ShippedModel> shipped_models();

/// A pipeline or a network in a folder.
struct FoundModel {
  std::filesystem::path folder;            ///< the folder of its model_index.json or config.json
  std::string class_name;                  ///< from that file; "?" if it names none
  std::optional<std::int64_t> parameters;  ///< known if the weights are present
  /// Empty for a class that headroom does not support; "request" for a whole pipeline.
  std::vector<std::string> passes;
};
struct FoundModels {
  std::vector<FoundModel> models;     ///< whole pipelines before their networks
  std::vector<std::string> left_out;  ///< for each model that cannot be read: why
};
/// The models at and below a folder, or of ORG/NAME in the cache of Hugging Face. Throws Error if there is none.
[[nodiscard]] FoundModels models_in(const std::string& name_or_folder);

/// The size of a pass. Each network reads the fields that apply to it.
struct PassSize {
  std::int64_t batch = 1;
  std::int64_t height = 1024;  ///< of the image, in pixels
  std::int64_t width = 1024;
  std::int64_t text_tokens = 512;
};

/// Shapes by input name.
using Shapes = std::map<std::string, Shape, std::less<>>;

/// A function that a network can execute.
struct PassInfo {
  std::string name;                 ///< "forward", "decode"
  std::vector<std::string> inputs;  ///< the required inputs
};

struct ComponentOptions {
  /// Draws random weights from this seed in place of the checkpoint's, the same on every device.
  std::optional<std::uint64_t> random_seed = {};
  /// The dtype of the baseline, unless a switch changes it: kF32 or kBF16. Default: f32 on a CPU; on a GPU the dtype
  /// of most of the checkpoint.
  std::optional<DType> baseline = {};
};

/// A network whose weights the caller holds.
struct NetworkInMemory {
  std::string name;    ///< for messages
  std::string config;  ///< the text of its config.json
  /// By their names in a checkpoint. They are read when a session loads them, now or later.
  std::map<std::string, TensorView, std::less<>> weights = {};
  std::shared_ptr<const void> owner = nullptr;  ///< keeps them alive; held as long as the component
  bool on_device = false;                       ///< the weights are in memory of the device, not of the host
  /// Called by name, once for each weight, when a session has loaded all that it needs of it, while it loads others.
  /// The caller may then free the memory, and returns where the weight is in host memory from then on. Nothing if it
  /// is gone: a pass that needs it in another format throws Error. Without a function the memory must stay.
  std::function<std::optional<TensorView>(const std::string& name)> loaded = {};
};

class CompiledPass;

/// One network of a checkpoint folder (a transformer, an autoencoder) on a device. Its weights are stored there in
/// the formats that compiled passes read. They are loaded when a session needs them, and all sessions share them.
class Component {
 public:
  /// Opens a name of shipped_models(), or a folder with a config.json and safetensors in diffusers' layout. Throws
  /// Error for an unknown network, a missing checkpoint, and tensors that are missing, unexpected or of a wrong
  /// shape.
  Component(const Device& device, const std::string& name_or_folder, const ComponentOptions& options = {});
  /// Reads the weights from the caller's memory. Throws Error likewise.
  Component(const Device& device, NetworkInMemory network, const ComponentOptions& options = {});

  [[nodiscard]] std::string name() const;
  /// The `_class_name` of its config.json: "AutoencoderKL"
  [[nodiscard]] std::string class_name() const;
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] const Device& device() const;
  [[nodiscard]] const std::vector<PassInfo>& passes() const;
  /// Shapes of all inputs of a pass for an image of this size. Throws Error for an unknown pass and an unsupported
  /// size.
  [[nodiscard]] Shapes input_shapes(std::string_view pass, const PassSize& size = {}) const;

  /// Optimizes and plans the pass for inputs of these shapes. `switches` are names and presets separated by commas,
  /// as for the program's --opt: "baseline", "lossless", "flash,fuse,bf16". No weights are loaded yet. Throws Error
  /// for an unknown pass or switch, and for shapes that do not fit.
  [[nodiscard]] CompiledPass compile(std::string_view pass, const Shapes& inputs,
                                     std::string_view switches = "baseline") const;

  /// Bytes of the weights on the device.
  [[nodiscard]] std::size_t weight_bytes() const;
  /// Frees the weights that neither a session nor `pass` uses.
  void keep_weights_of(const CompiledPass& pass);

  struct Impl;

 private:
  friend class CompiledPass;
  friend class Session;
  friend class FrameStream;
  std::shared_ptr<Impl> impl_;
};

/// An input or output of a compiled pass.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

/// A requested switch that could not apply.
struct Declined {
  std::string switch_name;
  std::string reason;
};

/// Device memory that a session needs, in bytes. Memory that libraries keep for themselves is not included.
struct MemoryNeed {
  std::size_t weights = 0;      ///< including weights that are already on the device
  std::size_t activations = 0;  ///< including the scratch memory of kernels
  std::size_t inputs = 0;
  std::size_t loading = 0;  ///< additional peak while weights are loaded

  [[nodiscard]] std::size_t total() const noexcept { return weights + activations + inputs + loading; }
};

/// One kernel launch, or a copy.
struct Launch {
  /// The module that it came from: "transformer_blocks.3.attn.to_q"; for a copy, its destination.
  std::string path;
  std::string op;              ///< "linear"; "copy"
  std::string kernel;          ///< "onednn.linear"; "copy"
  std::string implementation;  ///< as the library reports it: "brgemm:avx512_core_bf16"
  double flops = 0;            ///< a lower bound, like the bytes read and written
  double bytes = 0;
};

/// A pass of a network for one set of shapes under one set of switches: the launches, their order, and the memory
/// layout. It holds no device memory.
class CompiledPass {
 public:
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const Component& component() const;
  [[nodiscard]] const std::vector<TensorInfo>& inputs() const;
  [[nodiscard]] const std::vector<TensorInfo>& outputs() const;

  /// The requested switches with presets expanded. A switch that only a preset named is left out where it cannot pay
  /// on the device.
  [[nodiscard]] const std::vector<std::string>& switches() const;
  /// The requested switches that changed something, and those that could not apply.
  [[nodiscard]] const std::vector<std::string>& applied() const;
  [[nodiscard]] const std::vector<Declined>& declined() const;

  [[nodiscard]] MemoryNeed memory_need() const;
  /// In launch order.
  [[nodiscard]] const std::vector<Launch>& launches() const;
  /// The plan as text, as `headroom plan` prints it. With `with_rejections`, also the rejected kernels with reasons.
  [[nodiscard]] std::string plan_text(bool with_rejections = false) const;

  struct Impl;

 private:
  friend class Component;
  friend class Session;
  explicit CompiledPass(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Called after each launch with its wall time. The launch is one of CompiledPass::launches(). Under the switch
/// `tile`, runs of launches process a few samples at a time within the cache. Each of their launches is then reported
/// once, after the run, with its share of the run's time.
using LaunchObserver = std::function<void(const Launch& launch, double milliseconds)>;

/// Device memory that belongs to the caller; on a CPU any memory of the process.
struct DeviceMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
};

struct SessionOptions {
  /// On a GPU: the cudaStream_t that runs are submitted to, which must outlive the session. Null creates a stream for
  /// the session.
  void* stream = nullptr;
};

/// A compiled pass with its device memory: inputs, activations and the weights it uses. After the first run nothing
/// is allocated.
class Session {
 public:
  /// Loads the weights that are not on the device yet. Throws OutOfMemory before anything is loaded if weights and
  /// activations do not fit; the message suggests requests that would.
  explicit Session(const CompiledPass& pass, const SessionOptions& options = {});
  ~Session();
  Session(Session&& other) noexcept;
  Session& operator=(Session&& other) noexcept;

  [[nodiscard]] const CompiledPass& pass() const;

  /// Copies the elements. The input keeps them for all runs until it is set again. Throws Error for an unknown input,
  /// and for a dtype or shape that differs from CompiledPass::inputs().
  void set_input(std::string_view name, const TensorView& tensor);

  /// Binds an input or output to dense row-major memory of the caller, in place of the session's own, until it is
  /// bound again or unbound. The caller writes the input and reads the output there, ordered by stream(); no copy is
  /// made if kernels can use the memory in place. The memory must outlive the binding. Throws Error for an unknown
  /// input or output, a different size, and an address that is not a multiple of 64 (256 on a GPU). A run throws
  /// Error if memory that it writes to overlaps other bound memory.
  void bind_input(std::string_view name, const DeviceMemory& memory);
  void bind_output(std::string_view name, const DeviceMemory& memory);
  /// Returns it to memory of the session. An input must then be set again.
  void unbind_input(std::string_view name);
  void unbind_output(std::string_view name);

  /// Runs the pass and waits for it. Throws Error if an input has never been set or bound.
  void run();
  /// Submits a run to stream() and returns without waiting for a GPU. On a CPU it is the same as run().
  void submit();
  /// Waits for all submitted work.
  void wait();
  /// The cudaStream_t of a GPU, for copies and kernels that run before or after a run; null for a CPU.
  [[nodiscard]] void* stream() const;

  /// A copy of an output of the last run; waits for that run. Throws Error for an unknown output, and before the
  /// first run.
  [[nodiscard]] Tensor output(std::string_view name) const;
  /// The same on the device.
  [[nodiscard]] DeviceTensor device_output(std::string_view name) const;
  /// Bytes of bound outputs that the last run had to copy because no kernel writes them there.
  [[nodiscard]] std::size_t copied_bytes() const;

  /// From now on, launches are synchronized, timed and reported one by one, which slows the run down. An empty
  /// observer ends this. The observer must not throw.
  void observe_launches(LaunchObserver observer);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// An 8-bit image: pixels [height, width, channels], top row first; 1 channel is gray, 3 are RGB.
struct Image {
  int width = 0;
  int height = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// The size of an image in pixels.
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// A LoRA file and its weight, which may be negative.
struct Lora {
  std::string file;
  double weight = 1;
};

/// How many images a request makes at once, and how. The pipeline chooses fields that are not set; 0 is a value like
/// any other.
struct RequestOptions {
  std::int64_t images = 1;
  std::optional<std::int64_t> height = std::nullopt;  ///< of an image, in pixels
  std::optional<std::int64_t> width = std::nullopt;
  std::optional<std::int64_t> steps = std::nullopt;        ///< of the denoise loop
  std::optional<std::int64_t> text_tokens = std::nullopt;  ///< the length that prompts are truncated or padded to
  std::optional<double> guidance_scale = std::nullopt;     ///< 0 to 100
  /// 0 to 100. Above 1: classifier-free guidance, for a model that is otherwise guided without it.
  std::optional<double> true_cfg_scale = std::nullopt;
  bool has_negative_prompt = false;  ///< images have one: some models then choose another true_cfg_scale
  /// Sizes of the pictures of each image, in order: those that it edits, or the one that its loop starts from.
  std::vector<ImageSize> pictures = {};
  std::optional<double> strength = std::nullopt;  ///< share of noise in the picture at the start, above 0, up to 1
};

/// One image to make.
struct ImageRequest {
  /// An index into Pipeline::labels(): the prompt to use where none is given. For a pipeline that reads no text, the
  /// number of a random prompt.
  std::int64_t label = 0;
  /// The seed of the noise, which is the same on every device and in any batch.
  std::uint64_t seed = 0;
  std::optional<std::string> prompt = std::nullopt;  ///< UTF-8; longer prompts are truncated to the model's limit
  std::optional<std::string> negative_prompt = std::nullopt;  ///< for classifier-free guidance
  /// For the second text encoder, if it differs from `prompt`.
  std::optional<std::string> prompt_2 = std::nullopt;
  /// As many as RequestOptions::pictures, of those sizes.
  std::vector<Image> pictures = {};
};

/// A model that makes images on a device: networks and the host steps around them.
class Pipeline {
 public:
  /// Opens a name of shipped_models(), or a folder. Throws Error as Component does, and for a network that makes no
  /// images by itself.
  Pipeline(const Device& device, const std::string& name_or_folder, const ComponentOptions& options = {});

  [[nodiscard]] std::string name() const;
  [[nodiscard]] const Device& device() const;
  /// Names of its prompts; empty if the prompts are random.
  [[nodiscard]] const std::vector<std::string>& labels() const;
  /// Whether Generator::decode() returns pixels.
  [[nodiscard]] bool has_pixels() const;
  /// Adds LoRA files to the weights, in place of those of an earlier call; none gives the checkpoint's weights back.
  /// It applies to all generators of the pipeline, existing and later ones. Throws Error, and changes nothing, for a
  /// file that does not fit.
  void set_loras(std::span<const Lora> loras);
  /// Bytes of the weights on the device.
  [[nodiscard]] std::size_t weight_bytes() const;

  struct Impl;

 private:
  friend class Generator;
  friend class FrameStream;
  std::shared_ptr<Impl> impl_;
};

/// Called after each step of a denoise loop with its index (from 0) and its wall time. An exception that it throws ends
/// the loop after the step in progress.
using StepObserver = std::function<void(std::int64_t step, double milliseconds)>;

/// The time of one stage of a request: "tokenize", "text_encoder", "denoise", "decode".
struct StageTime {
  std::string name;
  double milliseconds = 0;
};

/// A pipeline compiled for one request under switches, with its device memory.
class Generator {
 public:
  /// Loads the weights that are not on the device yet. Throws Error for an unknown switch and an unsupported size,
  /// and OutOfMemory, before anything is loaded, if the request does not fit.
  explicit Generator(const Pipeline& pipeline, const RequestOptions& options = {},
                     std::string_view switches = "lossless");
  ~Generator();
  Generator(Generator&& other) noexcept;
  Generator& operator=(Generator&& other) noexcept;

  [[nodiscard]] const Pipeline& pipeline() const;
  /// As in CompiledPass.
  [[nodiscard]] const std::vector<std::string>& applied() const;
  [[nodiscard]] const std::vector<Declined>& declined() const;

  /// Latents [images, tokens, channels] f32, for exactly RequestOptions::images images. The observer is called after
  /// each step. Throws Error for another number of images and for an unknown label.
  [[nodiscard]] Tensor generate(std::span<const ImageRequest> images, const StepObserver& observer = {});
  /// Pixels [images, channels, height, width] f32 of latents: white is 1 and black -1. Values outside that range are
  /// possible, because the model overshoots. Throws Error if the pipeline has no pixels, or if the latents have a
  /// different shape.
  [[nodiscard]] Tensor decode(const TensorView& latents);
  /// The stages that ran since the last call of generate(), in order.
  [[nodiscard]] std::vector<StageTime> stages() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Images of Generator::decode(), clamped to black and white. Throws Error for NaN and for other tensors.
[[nodiscard]] std::vector<Image> to_images(const TensorView& pixels);
/// The bytes of a PNG file; equal images give equal bytes. Throws Error for an image without pixels.
[[nodiscard]] std::string encode_png(const Image& image);
/// Writes that file, which appears complete or not at all. Throws Error if it cannot be written.
void write_png(const std::filesystem::path& path, const Image& image);
/// The RGB pixels of a PNG or JPEG file, upright. Throws Error for another file.
[[nodiscard]] Image read_image(const std::filesystem::path& path);

/// How the frames of a live stream are made. The model chooses fields that are not set.
struct FrameOptions {
  std::int64_t height = 0;  ///< of a frame in pixels; 0 takes the model's size
  std::int64_t width = 0;
  std::optional<std::int64_t> steps = std::nullopt;     ///< calls of the denoiser for each frame
  std::optional<double> strength = std::nullopt;        ///< share of noise in the frame, above 0, up to 1
  std::optional<double> guidance_scale = std::nullopt;  ///< 0 to 100
  std::optional<std::int64_t> text_tokens = std::nullopt;
  std::string prompt = {};
  std::string negative_prompt = {};
  std::uint64_t seed = 0;
};

/// A model that makes each frame of a video anew, compiled for frames of one size.
class FrameStream {
 public:
  /// The stream of a pipeline whose loop starts from each frame. Throws Error for another pipeline, an unknown switch
  /// and invalid options.
  explicit FrameStream(const Pipeline& pipeline, const FrameOptions& options = {},
                       std::string_view switches = "lossless");
  /// The stream of a network that reads frames: "live-ink".
  explicit FrameStream(const Component& network, const FrameOptions& options = {},
                       std::string_view switches = "lossless");
  ~FrameStream();
  FrameStream(FrameStream&& other) noexcept;
  FrameStream& operator=(FrameStream&& other) noexcept;

  [[nodiscard]] const Device& device() const;
  [[nodiscard]] std::int64_t height() const;
  [[nodiscard]] std::int64_t width() const;
  [[nodiscard]] const std::vector<std::string>& applied() const;
  [[nodiscard]] const std::vector<Declined>& declined() const;
  /// The number of frames by which the result lags: 0 unless several frames are denoised together.
  [[nodiscard]] std::int64_t delay() const;
  /// The result for the frame given delay() calls before, from a frame of RGB bytes [height, width, 3]. The first
  /// call, and the first after restart(), starts the stream with that frame. Throws Error for another size.
  [[nodiscard]] Image next(std::span<const std::uint8_t> frame);
  void restart();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Work to measure. Each model and pass reads the fields that apply to it; what is not set the model chooses.
struct Work {
  std::string model;  ///< a name of shipped_models(), or a folder
  ComponentOptions options = {};
  /// A pass of a network, a stage of a pipeline, "request" for whole requests of a pipeline, or "frame" for a frame of
  /// a stream. Empty: whole requests in ladder() and plan_text(), and otherwise the first pass.
  std::string pass = {};
  std::int64_t batch = 1;
  std::optional<std::int64_t> height = std::nullopt;  ///< of an image, in pixels
  std::optional<std::int64_t> width = std::nullopt;
  std::optional<std::int64_t> text_tokens = std::nullopt;
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<double> guidance_scale = std::nullopt;
  std::optional<double> true_cfg_scale = std::nullopt;
};

/// What a command of the program reports.
struct Report {
  std::string result;                 ///< the result file: JSON of the schema headroom.result/1
  std::string text;                   ///< what the command prints
  std::vector<std::string> warnings;  ///< why nothing should be concluded from the times; empty if they are settled
};

/// Called between measurements: `done` of `total` of what `what` names. An exception that it throws ends the work.
using ProgressObserver = std::function<void(std::string_view what, std::int64_t done, std::int64_t total)>;

struct BenchOptions {
  int trials = 20;           ///< timed passes or requests
  double max_seconds = 300;  ///< starts no more trials after this time
  bool cold = false;         ///< of a pass: also times it with cold caches
  bool first_step = false;   ///< of a pass: also times passes of new shapes up to their first end
  bool floors = false;       ///< of requests: also measures the floor of each stage
};
/// What `headroom bench` does: times one pass, or whole requests, under switches. Throws Error as Component and
/// Pipeline do, and for options that do not apply to the work.
[[nodiscard]] Report bench(const Device& device, const Work& work, std::string_view switches = "baseline",
                           const BenchOptions& options = {}, const ProgressObserver& observer = {});

struct LadderOptions {
  bool only_ends = false;  ///< measures only the baseline and all switches together
  std::uint64_t seed = 0;  ///< of the first image
  int trials = 20;         ///< least number of steps to time in each visit of a rung
  int rounds = 2;          ///< visits of every rung, at least 2
  int max_rounds = 0;      ///< unsettled rungs are visited again, up to this many times in all; 0: three times `rounds`
  bool floors = false;     ///< of requests: also measures the floor of each stage
  std::int64_t quality_images = 0;        ///< images, or clips of a stream, to judge at each rung
  std::vector<std::string> prompts = {};  ///< of the images, in order; empty: the model's own
};
/// What `headroom ladder` does: measures time, memory and quality of the baseline, each switch alone, and all together.
/// Without switches it takes those that can have an effect on the device. A batch of 0 makes one image for each label.
[[nodiscard]] Report ladder(const Device& device, const Work& work, std::string_view switches = {},
                            const LadderOptions& options = {}, const ProgressObserver& observer = {});

/// What `headroom plan` prints; no weights are loaded. With `with_rejections`, also the rejected kernels with reasons.
[[nodiscard]] std::string plan_text(const Device& device, const Work& work, std::string_view switches = "lossless",
                                    bool with_rejections = false);

}  // namespace v1
}  // namespace headroom
