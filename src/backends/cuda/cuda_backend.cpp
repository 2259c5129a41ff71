// One GPU through the CUDA runtime. Memory comes from a pool (pool.cuh); memory that can be unloaded is reserved
// (reserved_memory.cuh).

#include "backends/cuda/cuda_backend.hpp"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/communicator.cuh"
#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/cupti/trace.hpp"
#include "backends/cuda/fill_normal.cuh"
#include "backends/cuda/host_copy.cuh"
#include "backends/cuda/page_locked.cuh"
#include "backends/cuda/pool.cuh"
#include "backends/cuda/region_recording.cuh"
#include "backends/cuda/reserved_memory.cuh"
#include "backends/cuda/sonames.hpp"
#include "backends/cuda/staging.cuh"
#include "backends/cuda/stream_list.cuh"
#include "backends/device.hpp"
#include "backends/rank_backend.hpp"
#include "base/error.hpp"
#include "base/files/opened_library.hpp"
#include "base/out_of_memory.hpp"
#include "base/text/format.hpp"

namespace headroom {
namespace {

using cuda::check;
using cuda::Pool;
using cuda::report;
using cuda::StreamList;

constexpr int kLeastComputeCapability = 80;
/// Up to this size the driver embeds the bytes in the command; larger copies are staged.
constexpr std::size_t kDirectCopyBytes = std::size_t{64} << 10;
/// Smaller than the blocks in which weights are reserved.
constexpr std::size_t kSmallBytes = std::size_t{2} << 20;

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, device));
  return value;
}

int compute_capability(int device) {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
         attribute(cudaDevAttrComputeCapabilityMinor, device);
}

std::string name_of_gpu(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

/// The UUID as the driver's tools print it: "GPU-8f3c2a10-...".
std::string format_uuid(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::optional<cuda::RealType> real_type(DType dtype) {
  if (dtype == DType::kF64) return cuda::RealType::kF64;
  if (dtype == DType::kF32) return cuda::RealType::kF32;
  if (dtype == DType::kF16) return cuda::RealType::kF16;
  if (dtype == DType::kBF16) return cuda::RealType::kBf16;
  return std::nullopt;
}

class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<StreamList> list, cudaStream_t stream, bool owned)
      : list_(std::move(list)), stream_(stream), owned_(owned) {
    list_->add(stream_);
  }
  ~CudaStream() override {
    list_->remove(stream_);
    if (owned_) {
      report(cudaStreamSynchronize(stream_));  // the memory it uses may be freed next
      report(cudaStreamDestroy(stream_));
    }
  }
  void wait(const Event& event) override;
  void synchronize() override { check(cudaStreamSynchronize(stream_)); }
  [[nodiscard]] void* native_handle() const noexcept override { return stream_; }

 private:
  std::shared_ptr<StreamList> list_;
  cudaStream_t stream_;
  bool owned_;
};

cudaStream_t handle_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

class CudaEvent final : public Event {
 public:
  CudaEvent() { check(cudaEventCreate(&event_)); }
  ~CudaEvent() override { report(cudaEventDestroy(event_)); }
  void record(Stream& stream) override { check(cudaEventRecord(event_, handle_of(stream))); }
  [[nodiscard]] double milliseconds_since(const Event& start) const override {
    const cudaEvent_t first = dynamic_cast<const CudaEvent&>(start).event_;
    check(cudaEventSynchronize(first));
    check(cudaEventSynchronize(event_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, first, event_));
    return static_cast<double>(milliseconds);
  }

  [[nodiscard]] cudaEvent_t handle() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

void CudaStream::wait(const Event& event) {
  check(cudaStreamWaitEvent(stream_, dynamic_cast<const CudaEvent&>(event).handle()));
}

/// A CUDA graph made from a stream's work.
class CudaRecording final : public Recording {
 public:
  CudaRecording(cudaStream_t stream, const std::function<void()>& submit) {
    // Relaxed: a caching allocator may still take a segment while it records, which the pool's own stream serves.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cudaGraph_t graph = nullptr;
    try {
      submit();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &graph));
      if (graph != nullptr) report(cudaGraphDestroy(graph));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph));
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    report(cudaGraphDestroy(graph));
    check(status);
    const cudaError_t uploaded = cudaGraphUpload(graph_, stream);
    if (uploaded != cudaSuccess) report(cudaGraphExecDestroy(graph_));  // a destructor would not run
    check(uploaded);
  }
  ~CudaRecording() override { report(cudaGraphExecDestroy(graph_)); }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  void replay(Stream& stream) override { check(cudaGraphLaunch(graph_, handle_of(stream))); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

class CudaBackend final : public Backend, public RegionBackend, public PageLockingBackend, public RankBackend {
 public:
  explicit CudaBackend(int device, int count = 0) : device_(device), count_(count), target_(open(device), this) {}

  [[nodiscard]] GpuIdentity identity() const {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device_));
    std::array<char, 32> bus_id{};
    check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device_));
    return {.index = device_,
            .count = count_,
            .name = properties.name,
            .uuid = format_uuid(properties.uuid),
            .pci_bus_id = bus_id.data()};
  }

  void make_current() const override { check(cudaSetDevice(device_)); }

  [[nodiscard]] DeviceProperties properties() const override {
    int driver = 0;
    check(cudaDriverGetVersion(&driver));
    std::size_t available = 0, installed = 0;
    check(cudaMemGetInfo(&available, &installed));
    return {.name = name_of_gpu(device_),
            .target = target_,
            .memory_bytes = installed,
            .available_bytes = available,
            .clock_mhz = attribute(cudaDevAttrClockRate, device_) / 1000,
            .memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, device_) / 1000,
            .driver = version_text(driver),
            .runtime = version_text(CUDART_VERSION)};
  }

  void copy_from_host(Stream& stream, DevicePointer device, const void* host, std::size_t bytes) override {
    if (bytes == 0) return;
    if (bytes <= kDirectCopyBytes)
      check(cudaMemcpyAsync(device.address(), host, bytes, cudaMemcpyHostToDevice, handle_of(stream)));
    else
      staging_.copy(handle_of(stream), device.address(), host, bytes);
  }
  [[nodiscard]] std::unique_ptr<PageLockedMemory> lock_pages(std::size_t bytes) override {
    return cuda::lock_pages(bytes);
  }
  void copy_from_page_locked(Stream& stream, DevicePointer device, const void* host, std::size_t bytes) override {
    check(cudaMemcpyAsync(device.address(), host, bytes, cudaMemcpyHostToDevice, handle_of(stream)));
  }
  void copy_to_host(Stream& stream, void* host, DevicePointer device, std::size_t bytes) override {
    if (bytes != 0) check(cudaMemcpyAsync(host, device.address(), bytes, cudaMemcpyDeviceToHost, handle_of(stream)));
  }
  void copy_on_device(Stream& stream, DevicePointer to, DevicePointer from, std::size_t bytes) override {
    if (bytes != 0)
      check(cudaMemcpyAsync(to.address(), from.address(), bytes, cudaMemcpyDeviceToDevice, handle_of(stream)));
  }

  void fill_normal(Stream& stream, DevicePointer device, DType dtype, std::uint64_t count,
                   const NormalStream& from) override {
    const std::optional<cuda::RealType> type = real_type(dtype);
    if (!type) {  // f8 floats, which no drawn checkpoint has
      std::vector<std::byte> drawn(count * size_of(dtype));
      store_normal(drawn.data(), dtype, count, from);
      return copy_from_host(stream, device, drawn.data(), drawn.size());
    }
    cuda::fill_normal(stream.native_handle(), device.address(), *type, count, from.seed, from.stream, from.mean,
                      from.deviation);
    check(cudaGetLastError());
  }

  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    order_behind_allocations(stream);
    return std::make_unique<CudaStream>(streams_, stream, true);
  }
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void* native_handle) override {
    auto* const stream = static_cast<cudaStream_t>(native_handle);
    order_behind_allocations(stream);
    return std::make_unique<CudaStream>(streams_, stream, false);
  }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(); }

  [[nodiscard]] std::unique_ptr<Recording> record(Stream& stream, const std::function<void()>& submit) override {
    return std::make_unique<CudaRecording>(handle_of(stream), submit);
  }
  [[nodiscard]] std::unique_ptr<RegionRecording> record_regions(
      Stream& stream, const std::function<void(RegionRecorder& recorder)>& submit) override {
    return cuda::record_regions(*this, stream, submit);
  }
  [[nodiscard]] std::string obstacle_in_region(Stream& stream, const std::function<void()>& submit) override {
    return cuda::obstacle_in_region(stream, submit);
  }

  [[nodiscard]] Backend& backend_of_rank(int rank) override {
    if (rank == 0) return *this;
    const int gpus = count_ == 0 ? static_cast<int>(survey_gpus().gpus.size()) - device_ : std::max(count_, 1);
    if (rank >= gpus)
      fail_usage("device {} has {}, and rank {} of a request needs another: name more GPUs, or give cp={}",
                 name_of(Device{.kind = DeviceKind::kCuda, .index = device_, .count = gpus}), format_count(gpus, "GPU"),
                 rank, gpus);
    const auto other = static_cast<std::size_t>(rank) - 1;
    if (others_.size() <= other) others_.resize(other + 1);
    if (others_[other] == nullptr) {
      others_[other] = std::make_unique<CudaBackend>(device_ + rank);
      make_current();
    }
    return *others_[other];
  }
  [[nodiscard]] std::vector<std::shared_ptr<Communicator>> connect(const std::shared_ptr<RankTeam>& team) override {
    std::vector<int> gpus;
    for (int rank = 0; rank < team->ranks(); ++rank) gpus.push_back(device_ + rank);
    return cuda::connect_gpus(team, gpus, cuda::best_link_memory(gpus));
  }

  [[nodiscard]] std::unique_ptr<DeviceTrace> make_trace() override { return cuda::make_cupti_trace(); }

  [[nodiscard]] std::optional<double> host_link_ms(std::size_t bytes) override {
    void* host = nullptr;
    check(cudaMallocHost(&host, bytes));
    const std::unique_ptr<void, void (*)(void*)> owner(host, [](void* data) { report(cudaFreeHost(data)); });
    std::memset(host, 0x5A, bytes);
    const Buffer device = allocate(bytes, MemoryCategory::kWorkspace);
    const std::unique_ptr<Stream> stream = make_stream();
    CudaEvent start, stop;
    const auto copy_ms = [&] {
      start.record(*stream);
      check(cudaMemcpyAsync(device.at().address(), host, bytes, cudaMemcpyHostToDevice, handle_of(*stream)));
      stop.record(*stream);
      return stop.milliseconds_since(start);
    };
    (void)copy_ms();
    return copy_ms();
  }

  void begin_range(const char* name) noexcept override { nvtxRangePushA(name); }
  void end_range() noexcept override { nvtxRangePop(); }

  [[nodiscard]] std::size_t reserve_granularity() const override { return reserved_.granularity(); }
  [[nodiscard]] std::unique_ptr<HostCopy> make_host_copy(std::size_t bytes) override {
    return cuda::make_host_copy(bytes);
  }

  [[nodiscard]] std::size_t reserved_bytes() const override {
    return pool_.reserved_bytes() + small_pool_.reserved_bytes() + reserved_.mapped_bytes();
  }
  void release_unused() override {
    pool_.release_unused();
    small_pool_.release_unused();
    reserved_.finish_leaving();
  }
  [[nodiscard]] std::optional<std::size_t> taken_bytes() const override {
    const std::size_t available = available_bytes();
    return at_opening_bytes_ > available ? at_opening_bytes_ - available : 0;
  }

 protected:
  [[nodiscard]] void* allocate_bytes(std::size_t bytes) override {
    Pool& pool = pool_of(bytes);
    try {
      return pool.allocate(bytes);
    } catch (const OutOfMemory&) {
      if (!reserved_.finish_leaving()) throw;
    }
    return pool.allocate(bytes);
  }
  void free_bytes(void* data, std::size_t bytes) noexcept override { pool_of(bytes).free(data); }
  [[nodiscard]] void* reserve_bytes(std::size_t bytes) override { return reserved_.reserve(bytes); }
  void unload_bytes(void* data, std::size_t /*bytes*/) override { reserved_.unload(data); }
  void reload_bytes(void* data, std::size_t /*bytes*/) override { reserved_.reload(data); }
  void free_reserved_bytes(void* data, std::size_t /*bytes*/) noexcept override { reserved_.free(data); }

 private:
  /// Small blocks have a pool of their own. Most of them stay, as biases do. In one pool with large temporary
  /// blocks, such as those of weight folding, each would keep a large block from returning to the system.
  Pool& pool_of(std::size_t bytes) noexcept { return bytes < kSmallBytes ? small_pool_ : pool_; }
  void order_behind_allocations(cudaStream_t stream) {
    pool_.order_behind_allocations(stream);
    small_pool_.order_behind_allocations(stream);
  }

  /// Makes the device current.
  static Target open(int device) {
    (void)choose_device({.kind = DeviceKind::kCuda, .index = device}, survey_gpus());
    check(cudaSetDevice(device));
    return {.device = DeviceKind::kCuda,
            .cache_bytes = static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, device)),
            .compute_capability = compute_capability(device),
            .multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device),
            .has_compiler = finds_compiler()};
  }

  /// Whether NVRTC of this toolkit's version is installed.
  static bool finds_compiler() {
    try {
      const GpuSonames names = gpu_sonames().value();
      const OpenedLibrary library("generated kernels", names.nvrtc, fmt::format("NVRTC {}", names.cuda_major));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  static std::size_t available_bytes() {
    std::size_t available = 0, installed = 0;
    check(cudaMemGetInfo(&available, &installed));
    return available;
  }

  int device_;
  int count_;  // of GPUs from this one on that ranks may use; 0: all
  DeviceTarget target_;
  std::size_t at_opening_bytes_ = available_bytes();  // after creation of the context
  std::shared_ptr<StreamList> streams_ = std::make_shared<StreamList>();
  Pool pool_{streams_}, small_pool_{streams_};
  cuda::ReservedMemory reserved_{streams_, pool_};
  cuda::Staging staging_;
  std::vector<std::unique_ptr<CudaBackend>> others_;  // of ranks 1, 2, ...
};

}  // namespace

GpuSurvey survey_gpus() {
  int driver = 0;
  check(cudaDriverGetVersion(&driver));
  if (driver == 0) return {.gpus = {}, .obstacle = "this machine has no NVIDIA driver; choose device cpu"};
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaErrorInsufficientDriver)
    return {.gpus = {},
            .obstacle = fmt::format("the NVIDIA driver supports CUDA {} and this program needs {}; update the driver",
                                    version_text(driver), version_text(CUDART_VERSION))};
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (status == cudaErrorNoDevice || (status == cudaSuccess && devices == 0))
    return {.gpus = {}, .obstacle = "the NVIDIA driver shows no GPU to this process; choose device cpu"};
  if (status != cudaSuccess)
    return {.gpus = {}, .obstacle = fmt::format("the NVIDIA driver cannot be used: {}", cudaGetErrorString(status))};
  GpuSurvey survey;
  for (int device = 0; device < devices; ++device) {
    const int capability = compute_capability(device);
    survey.gpus.push_back({.name = name_of_gpu(device), .obstacle = {}});
    if (capability < kLeastComputeCapability)
      survey.gpus.back().obstacle = fmt::format("the GPU has compute capability {}.{}; 8.0 (Ampere) or newer is needed",
                                                capability / 10, capability % 10);
  }
  return survey;
}

std::unique_ptr<Backend> make_cuda_backend(int index, int count) {
  (void)choose_device({.kind = DeviceKind::kCuda, .index = index, .count = count}, survey_gpus());
  return std::make_unique<CudaBackend>(index, count);
}

std::optional<GpuIdentity> gpu_of(const Backend& backend) {
  const auto* const cuda = dynamic_cast<const CudaBackend*>(&backend);
  return cuda == nullptr ? std::nullopt : std::optional(cuda->identity());
}

}  // namespace headroom
