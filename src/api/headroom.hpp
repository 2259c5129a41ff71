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
///
/// Ownership. Device, Component, CompiledPass and Pipeline are handles: a copy costs a pointer and is the same thing, and each
/// keeps alive what it was made from. References that they give hold as long as they do. A Session or Generator owns its
/// memory on the device.
///
/// Errors. Whatever can be wrong with what is given, or with the machine, is thrown as an Error, whose message is one
/// sentence for a person. A std::logic_error is a fault in the library. After an Error the objects are still good; a
/// session whose run() failed has no outputs until one succeeds.
///
/// Threads. A device and all that is made from it may be used by any thread, by one at a time. Kernels of a CPU run on
/// a team of threads that wait for each other spinning; on a machine that others use too, start the program with
/// OMP_WAIT_POLICY=passive or GOMP_SPINCOUNT=20000, which the OpenMP runtime reads when it is loaded.
namespace headroom {

// Applications write headroom::Device. The library's own sources, which have inner types of the same names, write
// headroom::v1::Device.
#ifdef HEADROOM_INTERNAL
namespace v1 {
#else
inline namespace v1 {
#endif

/// Of the library that is loaded: "0.1.0".
[[nodiscard]] std::string_view version() noexcept;

/// A failure that the caller, or the person before the program, can act on.
class Error : public std::runtime_error {
 public:
  /// The numbers are the exit codes of the program `headroom` for it.
  enum class Kind : int {
    kFailed = 1,  ///< a file, a checkpoint, a tensor or a device is not as it must be
    kUsage = 2,   ///< a wrong request: an unknown name or switch, a size that there is not
  };
  Error(const std::string& message, Kind kind);
  ~Error() override;
  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// A device or the host has not as much memory as is needed; what is smaller may still fit.
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

/// The caller's elements, dense and row-major in host memory, to be read; they need no alignment.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};
/// A view of f32 elements. Throws Error where there are not as many as the shape says.
[[nodiscard]] TensorView view_of(Shape shape, std::span<const float> elements);

/// A dense row-major tensor that owns its elements, in host memory.
class Tensor {
 public:
  /// All elements are 0.
  Tensor(DType dtype, Shape shape);

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The elements of an f32 tensor. Throws Error where it is another.
  [[nodiscard]] std::span<float> floats();
  [[nodiscard]] std::span<const float> floats() const;

  // NOLINTNEXTLINE(google-explicit-constructor): a tensor is given wherever one is read
  operator TensorView() const { return {dtype_, shape_, bytes_}; }

 private:
  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

/// ||actual - expected||_2 / ||expected||_2 over all elements, whatever the dtypes. 0 where none differs, infinite
/// where only `expected` is all zeros, NaN where there is one. Throws Error where the shapes differ.
[[nodiscard]] double relative_l2(const TensorView& actual, const TensorView& expected);

/// In bytes. On a CPU it is the machine's, within the limits that the system sets this process.
struct MemoryUse {
  std::size_t installed = 0;
  std::size_t available = 0;  ///< held by nobody
  std::size_t used = 0;       ///< by this Device and all that is made from it
  std::size_t peak = 0;       ///< the most that `used` has been
};

/// What networks run on.
class Device {
 public:
  /// `name` is "cpu", "cuda" (the first GPU), "cuda:N", or "auto": the first GPU that can be used, else the CPU.
  /// `threads` is of a CPU, 0 for all that the affinity mask of the process allows. Throws Error where there is no such
  /// device, or it cannot be used, saying why.
  explicit Device(const std::string& name = "auto", int threads = 0);

  /// "cpu", "cuda:0"
  [[nodiscard]] std::string name() const;
  /// As the vendor writes it: "AMD EPYC 9R14", "NVIDIA H200"
  [[nodiscard]] std::string description() const;
  /// CPU threads that kernels use; 1 of a GPU.
  [[nodiscard]] int threads() const;
  [[nodiscard]] MemoryUse memory() const;

  struct Impl;

 private:
  friend class Component;
  friend class Session;
  friend class Pipeline;
  friend class Generator;
  std::shared_ptr<Impl> impl_;
};

/// A network that can be opened by its name.
struct ShippedModel {
  std::string name;  ///< "tiny-dit"
  std::string description;
  std::filesystem::path folder;  ///< empty of a configuration without a checkpoint, which takes random weights
  std::int64_t parameters = 0;
};
[[nodiscard]] std::vector<ShippedModel> shipped_models();

/// A network in a checkpoint folder.
struct FoundComponent {
  std::filesystem::path folder;            ///< of its config.json
  std::string class_name;                  ///< as the config.json has it; "?" where it says none
  std::optional<std::int64_t> parameters;  ///< where its weights are there
  std::vector<std::string> passes;         ///< empty where headroom does not know the class
};
/// What a checkpoint folder in diffusers' layout holds: the folder itself and those in it. Throws Error where none has
/// a config.json.
[[nodiscard]] std::vector<FoundComponent> components_in(const std::filesystem::path& folder);

/// How large a pass is. A network reads what it works on.
struct PassSize {
  std::int64_t batch = 1;
  std::int64_t height = 1024;  ///< of the image, in pixels
  std::int64_t width = 1024;
  std::int64_t text_tokens = 512;
};

/// Shapes by the name of an input.
using Shapes = std::map<std::string, Shape, std::less<>>;

/// One thing that a network does.
struct PassInfo {
  std::string name;                 ///< "forward", "decode"
  std::vector<std::string> inputs;  ///< that it cannot do without
};

struct ComponentOptions {
  /// Weights drawn from this seed, the same on every device, in place of the checkpoint's.
  std::optional<std::uint64_t> random_seed = {};
  /// What to compute in where no switch says otherwise: kF32 or kBF16. Unless given, f32 on a CPU, and on a GPU what
  /// most of the checkpoint is in.
  std::optional<DType> baseline = {};
};

class CompiledPass;

/// One network of a checkpoint folder (a transformer, an autoencoder) on a device, with its weights there as compiled
/// passes want them. They are loaded when a session needs them, and shared by all sessions.
class Component {
 public:
  /// Opens a name of shipped_models(), or a folder with a config.json and safetensors in diffusers' layout. Throws
  /// Error where the network is unknown, its checkpoint is missing, or tensors are missing, unexpected or wrongly
  /// shaped.
  Component(const Device& device, const std::string& name_or_folder, const ComponentOptions& options = {});

  [[nodiscard]] std::string name() const;
  /// The `_class_name` of its config.json: "AutoencoderKL"
  [[nodiscard]] std::string class_name() const;
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] const Device& device() const;
  [[nodiscard]] const std::vector<PassInfo>& passes() const;
  /// Of every input of a pass, for an image of that size. Throws Error for a pass or size that there is not.
  [[nodiscard]] Shapes input_shapes(std::string_view pass, const PassSize& size = {}) const;

  /// The pass over inputs of these shapes, optimized and planned. `switches` are names and presets with commas between
  /// them, as the program's --opt takes them: "baseline", "lossless", "flash,fuse,bf16". Nothing is loaded yet. Throws
  /// Error for an unknown pass or switch, and for shapes that do not fit.
  [[nodiscard]] CompiledPass compile(std::string_view pass, const Shapes& inputs,
                                     std::string_view switches = "baseline") const;

  /// Bytes of the weights on the device.
  [[nodiscard]] std::size_t weight_bytes() const;
  /// Frees the weights that no session uses and that `pass` does not need.
  void keep_weights_of(const CompiledPass& pass);

  struct Impl;

 private:
  friend class CompiledPass;
  friend class Session;
  std::shared_ptr<Impl> impl_;
};

/// An input or output of a compiled pass.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

/// A switch that was asked for and could not apply.
struct Declined {
  std::string switch_name;
  std::string reason;
};

/// Device memory that a session needs, in bytes. What libraries keep for themselves is not in it.
struct MemoryNeed {
  std::size_t weights = 0;      ///< those that are on the device already among them
  std::size_t activations = 0;  ///< with the scratch of kernels
  std::size_t inputs = 0;
  std::size_t loading = 0;  ///< beyond all these, for a moment while weights are loaded

  [[nodiscard]] std::size_t total() const noexcept { return weights + activations + inputs + loading; }
};

/// One launch of a kernel, or a copy.
struct Launch {
  std::string path;    ///< of the module that it came from: "transformer_blocks.3.attn.to_q"; of a copy, what it writes
  std::string op;      ///< "linear"; "copy"
  std::string kernel;  ///< "onednn.linear"; "copy"
  std::string implementation;  ///< as the library reports it: "brgemm:avx512_core_bf16"
  double flops = 0;            ///< at least, like the bytes read and written
  double bytes = 0;
};

/// A pass of a network for one set of shapes under one set of switches: what is launched, in which order, and where
/// everything lies. It holds no memory on the device.
class CompiledPass {
 public:
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const Component& component() const;
  [[nodiscard]] const std::vector<TensorInfo>& inputs() const;
  [[nodiscard]] const std::vector<TensorInfo>& outputs() const;

  /// The switches that were asked for, presets spelled out, without what only a preset named and cannot pay on the
  /// device.
  [[nodiscard]] const std::vector<std::string>& switches() const;
  /// Of those, what changed something, and what could not.
  [[nodiscard]] const std::vector<std::string>& applied() const;
  [[nodiscard]] const std::vector<Declined>& declined() const;

  [[nodiscard]] MemoryNeed memory_need() const;
  /// In the order in which they are made.
  [[nodiscard]] const std::vector<Launch>& launches() const;
  /// The plan as a person reads it, as `headroom plan` prints it; on request with the kernels that were tried and
  /// rejected, and why.
  [[nodiscard]] std::string plan_text(bool with_rejections = false) const;

  struct Impl;

 private:
  friend class Component;
  friend class Session;
  explicit CompiledPass(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Called after each launch with its wall time. Where runs of launches go through a cache a few samples at a time (the
/// switch `tile`), each is told once, when the run is over, with its share of the run's time. The launch is one of
/// CompiledPass::launches().
using LaunchObserver = std::function<void(const Launch& launch, double milliseconds)>;

/// Memory on the device that belongs to the caller; on a CPU any memory of the process.
struct DeviceMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
};

struct SessionOptions {
  /// Of a GPU: the cudaStream_t that runs are submitted to, which must outlive the session. Null for one of its own.
  void* stream = nullptr;
};

/// A compiled pass with memory on the device: inputs, activations and the weights it uses. After the first run nothing
/// is allocated.
class Session {
 public:
  /// Loads weights that are not there yet. Throws OutOfMemory, before anything is loaded, where they or the activations
  /// do not fit; the message tells what would.
  explicit Session(const CompiledPass& pass, const SessionOptions& options = {});
  ~Session();
  Session(Session&& other) noexcept;
  Session& operator=(Session&& other) noexcept;

  [[nodiscard]] const CompiledPass& pass() const;

  /// Copies the elements; the input keeps them for every run until it is set again. Throws Error where there is no such
  /// input, or dtype or shape are not those of CompiledPass::inputs().
  void set_input(std::string_view name, const TensorView& tensor);

  /// Lets an input or an output lie in memory of the caller's, dense and row-major, in place of the session's own,
  /// until it is bound elsewhere or unbound: the caller writes the input and reads the output there, with no copy where
  /// kernels can use them in place, in the order of stream(). The memory must outlive that. Throws Error where there is
  /// no such input or output, its size is another, or the address is no multiple of 64, on a GPU of 256; a run does
  /// where memory that it writes to overlaps other memory that is bound.
  void bind_input(std::string_view name, const DeviceMemory& memory);
  void bind_output(std::string_view name, const DeviceMemory& memory);
  /// Gives it memory of the session's again. An input must then be set anew.
  void unbind_input(std::string_view name);
  void unbind_output(std::string_view name);

  /// Runs the pass and waits for it. Throws Error where an input has never been set or bound.
  void run();
  /// Submits a run to stream() and returns, on a GPU before it is done; on a CPU it is run().
  void submit();
  /// Returns when all that was submitted is done.
  void wait();
  /// The cudaStream_t of a GPU, to submit copies and kernels to that come before or after a run; null of a CPU.
  [[nodiscard]] void* stream() const;

  /// A copy of what the last run gave; waits for it. Throws Error where there is no such output, or no run yet.
  [[nodiscard]] Tensor output(std::string_view name) const;

  /// From now on each launch of a run is made by itself, waited for, timed and told, which makes the run slower; an
  /// empty observer ends that. The observer must not throw.
  void observe_launches(LaunchObserver observer);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// How many images a request makes at once, and how. What is not given is left to the pipeline; 0 is a value like any other.
struct RequestOptions {
  std::int64_t images = 1;
  std::optional<std::int64_t> height = std::nullopt;  ///< of an image, in pixels
  std::optional<std::int64_t> width = std::nullopt;
  std::optional<std::int64_t> steps = std::nullopt;        ///< of the denoise loop
  std::optional<std::int64_t> text_tokens = std::nullopt;  ///< that a prompt is cut or filled to
  std::optional<double> guidance_scale = std::nullopt;     ///< 0 to 100
  /// 0 to 100; over 1: classifier-free guidance of a model that is guided without it
  std::optional<double> true_cfg_scale = std::nullopt;
};

/// One image to make.
struct ImageRequest {
  /// Of Pipeline::labels(): what is drawn where no prompt is given. Of a pipeline that reads no text the number of a
  /// random prompt.
  std::int64_t label = 0;
  std::uint64_t seed = 0;                            ///< of its noise, the same on every device and in any batch
  std::optional<std::string> prompt = std::nullopt;  ///< in words, UTF-8; longer ones are cut to what the model reads
  std::optional<std::string> negative_prompt = std::nullopt;  ///< what classifier-free guidance leads away from
  std::optional<std::string> prompt_2 = std::nullopt;         ///< what the second text encoder reads, if not the prompt
};

/// A model that makes images on a device: networks, and what the host does around them.
class Pipeline {
 public:
  /// Opens a name of shipped_models(), or a folder. Throws Error for a network that makes no images by itself, and where
  /// Component would.
  Pipeline(const Device& device, const std::string& name_or_folder, const ComponentOptions& options = {});

  [[nodiscard]] std::string name() const;
  [[nodiscard]] const Device& device() const;
  /// What its prompts are called; empty where it draws random ones.
  [[nodiscard]] const std::vector<std::string>& labels() const;
  /// Whether Generator::decode() gives pixels.
  [[nodiscard]] bool has_pixels() const;
  /// Bytes of the weights on the device.
  [[nodiscard]] std::size_t weight_bytes() const;

  struct Impl;

 private:
  friend class Generator;
  std::shared_ptr<Impl> impl_;
};

/// Called after each step of a denoise loop with its number, 0 first, and its wall time. It must not throw.
using StepObserver = std::function<void(std::int64_t step, double milliseconds)>;

/// What a stage of a request took: "tokenize", "text_encoder", "denoise", "decode".
struct StageTime {
  std::string name;
  double milliseconds = 0;
};

/// A pipeline compiled for one request under switches, with memory on the device.
class Generator {
 public:
  /// Loads weights that are not there yet. Throws Error for an unknown switch and for sizes that there are not,
  /// OutOfMemory, before anything is loaded, for what does not fit.
  explicit Generator(const Pipeline& pipeline, const RequestOptions& options = {},
                     std::string_view switches = "lossless");
  ~Generator();
  Generator(Generator&& other) noexcept;
  Generator& operator=(Generator&& other) noexcept;

  [[nodiscard]] const Pipeline& pipeline() const;
  /// As CompiledPass says them.
  [[nodiscard]] const std::vector<std::string>& applied() const;
  [[nodiscard]] const std::vector<Declined>& declined() const;

  /// Latents [images, tokens, channels] f32 of RequestOptions::images images. The observer is told of each step, and may
  /// throw to end the loop after the step that is under way. Throws Error for another number of images, and for a label
  /// that there is not.
  [[nodiscard]] Tensor generate(std::span<const ImageRequest> images, const StepObserver& observer = {});
  /// Pixels [images, channels, height, width] f32 of latents, white at 1 and black at -1, and beyond where the model
  /// overshoots. Throws Error where the pipeline has no pixels, or the latents are not of its shape.
  [[nodiscard]] Tensor decode(const TensorView& latents);
  /// What ran since generate() was last called, in that order.
  [[nodiscard]] std::vector<StageTime> stages() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace v1
}  // namespace headroom
