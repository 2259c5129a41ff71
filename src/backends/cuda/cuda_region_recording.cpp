// Records a whole program as one CUDA graph. A body is captured into the graph of its conditional node, on a stream
// that takes no part in the enclosing capture. A kernel before the node, and in a loop also one at the end of the
// body, decides whether the body runs.
//
// Handles have no default value: it would be set when the graph begins, too early for a node that runs again. The
// graph must outlive its instance, because it owns the handles.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/region_control.cuh"
#include "backends/cuda/region_recording.cuh"
#include "base/error.hpp"

namespace headroom::cuda {
namespace {

cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

/// Page-locked host memory that the device reads and writes over the link. Words are initially zero.
template <class Word>
class MappedWords {
 public:
  explicit MappedWords(std::size_t count) : count_(count) {
    void* host = nullptr;
    check(cudaHostAlloc(&host, count * sizeof(Word), cudaHostAllocMapped));
    host_ = static_cast<Word*>(host);
    clear();
    void* device = nullptr;
    const cudaError_t status = cudaHostGetDevicePointer(&device, host, 0);
    if (status != cudaSuccess) report(cudaFreeHost(host_));  // a destructor would not run
    check(status);
    device_ = static_cast<Word*>(device);
  }
  ~MappedWords() {
    if (host_ != nullptr) report(cudaFreeHost(host_));
  }
  MappedWords(MappedWords&& other) noexcept
      : count_(other.count_), host_(std::exchange(other.host_, nullptr)), device_(other.device_) {}
  MappedWords& operator=(MappedWords&&) = delete;
  MappedWords(const MappedWords&) = delete;
  MappedWords& operator=(const MappedWords&) = delete;

  [[nodiscard]] Word read(std::size_t i) const { return std::atomic_ref(host_[i]).load(std::memory_order_acquire); }
  void write(std::size_t i, Word value) { std::atomic_ref(host_[i]).store(value, std::memory_order_release); }
  void clear() {
    for (std::size_t i = 0; i < count_; ++i) write(i, 0);
  }
  [[nodiscard]] Word* device() const noexcept { return device_; }

 private:
  std::size_t count_;
  Word* host_ = nullptr;
  Word* device_ = nullptr;
};

/// The end of a stream's submitted work, for the host to wait for.
class EndOfWork {
 public:
  EndOfWork() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~EndOfWork() { report(cudaEventDestroy(event_)); }
  EndOfWork(const EndOfWork&) = delete;
  EndOfWork& operator=(const EndOfWork&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream)); }
  void synchronize() noexcept { report(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An outermost loop: when it began, and when each of its iterations ended.
struct WatchedLoop {
  std::int64_t trip_count = 0;
  MappedWords<std::uint64_t> ends_ns;
  Buffer looked_ns;
};

/// Memory of the kernels that decide, for the lifetime of the recording.
struct RegionMemory {
  MappedWords<std::uint32_t> is_stopped{1};
  std::vector<WatchedLoop> watched;
  std::vector<Buffer> counters;  // of loops whose iteration number is not read
};

class CudaRegionRecorder final : public RegionRecorder {
 public:
  CudaRegionRecorder(Backend& backend, RegionMemory& memory) : backend_(backend), memory_(memory) {}

  void loop(Stream& stream, std::int64_t trip_count, DevicePointer counter, Stream& inside,
            const std::function<void()>& body) override {
    HR_CHECK(trip_count >= 0 && trip_count <= std::numeric_limits<std::int32_t>::max());
    if (!counter)
      counter = memory_.counters.emplace_back(backend_.allocate(sizeof(std::int32_t), MemoryCategory::kWorkspace)).at();
    LoopControl control{.goes_on = make_handle(stream),
                        .trip_count = static_cast<std::int32_t>(trip_count),
                        .counter = counter.address<std::int32_t>()};
    if (depth_ == 0) {
      const WatchedLoop& watched = memory_.watched.emplace_back(
          WatchedLoop{.trip_count = trip_count,
                      .ends_ns = MappedWords<std::uint64_t>(static_cast<std::size_t>(trip_count) + 1),
                      .looked_ns = backend_.allocate(sizeof(std::uint64_t), MemoryCategory::kWorkspace)});
      control.ends_ns = watched.ends_ns.device();
      control.is_stopped = memory_.is_stopped.device();
      control.looked_ns = watched.looked_ns.at().address<std::uint64_t>();
    }
    launch_begin_loop(native(stream), control);
    cudaGraph_t* const bodies = add_node(stream, control.goes_on, cudaGraphCondTypeWhile, 1);
    capture(inside, bodies[0], [&] {
      body();
      launch_end_iteration(native(inside), control);
    });
  }

  void branch(Stream& stream, DevicePointer predicate, Stream& inside, const std::function<void()>& then,
              const std::function<void()>& otherwise) override {
    if (!then && !otherwise) return;
    const cudaGraphConditionalHandle taken = make_handle(stream);
    launch_choose(native(stream), taken, predicate.address<bool>(), !then);
    const bool has_both = then && otherwise;
    cudaGraph_t* const bodies = add_node(stream, taken, cudaGraphCondTypeIf, has_both ? 2 : 1);
    capture(inside, bodies[0], then ? then : otherwise);
    if (has_both) capture(inside, bodies[1], otherwise);
  }

 private:
  struct Captured {
    cudaGraph_t graph = nullptr;
    const cudaGraphNode_t* last = nullptr;  // the next node depends on these
    const cudaGraphEdgeData* edges = nullptr;
    std::size_t count = 0;
  };

  static Captured captured_by(Stream& stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    Captured captured;
    check(cudaStreamGetCaptureInfo(native(stream), &status, nullptr, &captured.graph, &captured.last, &captured.edges,
                                   &captured.count));
    HR_CHECK(status == cudaStreamCaptureStatusActive);
    return captured;
  }

  static cudaGraphConditionalHandle make_handle(Stream& stream) {
    cudaGraphConditionalHandle handle = 0;
    check(cudaGraphConditionalHandleCreate(&handle, captured_by(stream).graph, 0, 0));
    return handle;
  }

  /// Adds the node after all work of the stream; its bodies are empty.
  static cudaGraph_t* add_node(Stream& stream, cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type,
                               unsigned bodies) {
    cudaGraphNodeParams parameters{};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = handle;
    parameters.conditional.type = type;
    parameters.conditional.size = bodies;
    const Captured before = captured_by(stream);
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddNode(&node, before.graph, before.last, before.edges, before.count, &parameters));
    check(cudaStreamUpdateCaptureDependencies(native(stream), &node, nullptr, 1, cudaStreamSetCaptureDependencies));
    return parameters.conditional.phGraph_out;
  }

  void capture(Stream& inside, cudaGraph_t body, const std::function<void()>& submit) {
    check(cudaStreamBeginCaptureToGraph(native(inside), body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
    ++depth_;
    cudaGraph_t same = nullptr;
    try {
      submit();
    } catch (...) {
      --depth_;
      static_cast<void>(cudaStreamEndCapture(native(inside), &same));
      throw;
    }
    --depth_;
    check(cudaStreamEndCapture(native(inside), &same));
  }

  Backend& backend_;
  RegionMemory& memory_;
  int depth_ = 0;
};

/// The work that `submit` submits, as a graph.
class CapturedGraph {
 public:
  CapturedGraph(cudaStream_t stream, const std::function<void()>& submit) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    try {
      submit();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &graph_));
      destroy();
      static_cast<void>(cudaGetLastError());
      throw;
    }
    const cudaError_t status = cudaStreamEndCapture(stream, &graph_);
    if (status != cudaSuccess) destroy();
    check(status);
  }
  ~CapturedGraph() { destroy(); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  [[nodiscard]] cudaGraph_t get() const noexcept { return graph_; }

 private:
  void destroy() noexcept {
    if (graph_ != nullptr) report(cudaGraphDestroy(graph_));
  }

  cudaGraph_t graph_ = nullptr;
};

class CudaRegionRecording final : public RegionRecording {
 public:
  CudaRegionRecording(Backend& backend, Stream& stream, const std::function<void(RegionRecorder& recorder)>& submit)
      : graph_(native(stream), [&] {
          CudaRegionRecorder recorder(backend, memory_);
          submit(recorder);
        }) {
    check(cudaGraphInstantiate(&instance_, graph_.get(), 0));
    const cudaError_t status = cudaGraphUpload(instance_, native(stream));
    if (status != cudaSuccess) report(cudaGraphExecDestroy(instance_));  // a destructor would not run
    check(status);
  }
  ~CudaRegionRecording() override {
    last_replay_.synchronize();  // it writes to host memory, which is freed next
    report(cudaGraphExecDestroy(instance_));
  }
  CudaRegionRecording(const CudaRegionRecording&) = delete;
  CudaRegionRecording& operator=(const CudaRegionRecording&) = delete;

  void replay(Stream& stream) override {
    check(cudaGraphLaunch(instance_, native(stream)));
    last_replay_.record(native(stream));
  }

  void replay_observed(Stream& stream, const IterationObserver& observer) override {
    stream.synchronize();  // a replay before this writes the same words
    for (WatchedLoop& loop : memory_.watched) loop.ends_ns.clear();
    replay(stream);
    try {
      for (const WatchedLoop& loop : memory_.watched) watch(loop, stream, observer);
    } catch (...) {
      memory_.is_stopped.write(0, 1);
      const cudaError_t status = cudaStreamSynchronize(native(stream));
      memory_.is_stopped.write(0, 0);
      check(status);
      throw;
    }
    stream.synchronize();
  }

 private:
  static void watch(const WatchedLoop& loop, Stream& stream, const IterationObserver& observer) {
    std::uint64_t before_ns = wait_for(loop.ends_ns, 0, stream);
    for (std::int64_t i = 0; i < loop.trip_count; ++i) {
      const std::uint64_t end_ns = wait_for(loop.ends_ns, static_cast<std::size_t>(i) + 1, stream);
      observer(i, static_cast<double>(end_ns - before_ns) * 1e-6);
      before_ns = end_ns;
    }
  }

  /// Waits until the device has written the time, and returns it.
  static std::uint64_t wait_for(const MappedWords<std::uint64_t>& ends_ns, std::size_t i, Stream& stream) {
    constexpr int kLooksBetweenQueries = 1 << 12;
    for (int looks = 1;; ++looks) {
      if (const std::uint64_t end = ends_ns.read(i); end != 0) return end;
      if (looks % kLooksBetweenQueries == 0) require_running(ends_ns, i, stream);
      std::this_thread::yield();
    }
  }

  /// Throws Error if the device has failed, or has finished without writing the time.
  static void require_running(const MappedWords<std::uint64_t>& ends_ns, std::size_t i, Stream& stream) {
    const cudaError_t status = cudaStreamQuery(native(stream));
    if (status == cudaErrorNotReady) return;
    check(status);
    stream.synchronize();
    if (ends_ns.read(i) == 0) fail("the device ended a loop before iteration {}", i);
  }

  RegionMemory memory_;
  EndOfWork last_replay_;
  CapturedGraph graph_;
  cudaGraphExec_t instance_ = nullptr;
};

/// Names a node that a region must not hold; null for others.
const char* obstacle_of(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  check(cudaGraphNodeGetType(node, &type));
  switch (type) {
    case cudaGraphNodeTypeKernel:
    case cudaGraphNodeTypeMemset:
    case cudaGraphNodeTypeEmpty:
    case cudaGraphNodeTypeConditional:
      return nullptr;
    case cudaGraphNodeTypeMemcpy: {
      cudaMemcpy3DParms copy{};
      check(cudaGraphMemcpyNodeGetParams(node, &copy));
      if (copy.kind == cudaMemcpyHostToDevice) return "a copy from the host";
      if (copy.kind == cudaMemcpyDeviceToHost) return "a copy to the host";
      return copy.srcArray != nullptr || copy.dstArray != nullptr ? "a copy of an array" : nullptr;
    }
    case cudaGraphNodeTypeHost:
      return "a call of the host";
    case cudaGraphNodeTypeGraph:
      return "a graph of its own";
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
      return "an event";
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
      return "an allocation";
    default:
      return "a node of another kind";
  }
}

}  // namespace

std::unique_ptr<RegionRecording> record_regions(Backend& backend, Stream& stream,
                                                const std::function<void(RegionRecorder& recorder)>& submit) {
  return std::make_unique<CudaRegionRecording>(backend, stream, submit);
}

std::string obstacle_in_region(Stream& stream, const std::function<void()>& submit) {
  std::optional<CapturedGraph> graph;
  try {
    graph.emplace(native(stream), submit);
  } catch (const Error& error) {
    return error.what();
  }
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph->get(), nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(graph->get(), nodes.data(), &count));
  for (auto* const node : nodes)
    if (const char* const obstacle = obstacle_of(node)) return obstacle;
  return {};
}

}  // namespace headroom::cuda
