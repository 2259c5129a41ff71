#include <memory>
#include <type_traits>
#include <vector>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/early_launch.cuh"

namespace headroom::cuda {
namespace {

template <typename T, cudaError_t (*kDestroy)(T)>
struct Destroy {
  void operator()(T handle) const noexcept { report(kDestroy(handle)); }
};
template <typename T, cudaError_t (*kDestroy)(T)>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroy<T, kDestroy>>;
using OwnedStream = Owned<cudaStream_t, cudaStreamDestroy>;
using OwnedGraph = Owned<cudaGraph_t, cudaGraphDestroy>;

/// Captures a graph: one of our kernels, and then what `submit` submits.
OwnedGraph record(cudaStream_t stream, const std::function<void(cudaStream_t)>& submit) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    launch_wait(stream);
    submit(stream);
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    const OwnedGraph unfinished(graph);
    static_cast<void>(cudaGetLastError());
    throw;
  }
  const cudaError_t status = cudaStreamEndCapture(stream, &graph);
  OwnedGraph made(graph);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());  // else the next launch would seem refused
  check(status);
  return made;
}

}  // namespace

bool uses_dependent_launch(const std::function<void(cudaStream_t)>& submit) {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  const OwnedStream stream(made);
  const OwnedGraph graph = record(stream.get(), submit);
  std::size_t count = 0;
  check(cudaGraphGetEdges(graph.get(), nullptr, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> how(count);
  check(cudaGraphGetEdges(graph.get(), from.data(), to.data(), how.data(), &count));
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t before = 0;  // the kernel of record() has no predecessors
    check(cudaGraphNodeGetDependencies(from[i], nullptr, nullptr, &before));
    if (before == 0 && how[i].type == cudaGraphDependencyTypeProgrammatic) return true;
  }
  return false;
}

}  // namespace headroom::cuda
