#pragma once

// Programmatic dependent launch (CUDA C++ Programming Guide): a kernel may begin before its predecessors on the
// stream have ended. Launch, block scheduling and set-up of one kernel then overlap the end of the previous one. All
// our kernels use it on compute capability 9.0 and later, on streams and in recordings, whose graphs then have
// programmatic edges.
//
// Only its own wait orders such a kernel; without the wait, results are silently wrong. Each kernel therefore begins
// with wait_for_previous(), before it reads or writes anything but its parameters and shared memory. Every block
// waits, even one without work: the next kernel waits for this kernel alone, and through it for all before.
// tests/structure/check_waits.py enforces this in sources, and kernel tests run each kernel after late work
// (testing/late_work.hpp).
//
// Copies, fills, most library kernels and work that waits for an event are ordered by the stream as usual. A library
// kernel that begins early (uses_dependent_launch() below) but does not wait for all earlier work needs
// launch_wait() before it.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace headroom::cuda {

#ifdef __CUDACC__

/// Lets the next kernel begin, on multiprocessors with room, once all blocks have called this or ended. Without the
/// call it may begin when all blocks have ended. Then the launch latency is exposed, and a convolution has no time
/// to prefetch its weights.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until all earlier kernels have ended and their writes are visible. The next kernel may not begin meanwhile.
__device__ __forceinline__ void wait_alone() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Like wait_alone(), while the next kernel may begin. It takes no room from blocks of this kernel, which are all
/// resident by then.
__device__ __forceinline__ void wait_for_previous() {
  let_next_begin();
  wait_alone();
}

#endif  // __CUDACC__

/// The grid, block, stream and shared memory of a launch.
struct LaunchShape {
  dim3 blocks;
  dim3 threads;
  cudaStream_t stream = nullptr;
  std::size_t shared_bytes = 0;
  int cluster = 0;  ///< blocks along x per cluster; 0: no clusters
  /// All blocks run at the same time, so that they may use a grid barrier (a cooperative launch): at most as many as
  /// fit on the multiprocessors. Such a kernel does not begin early.
  bool is_whole_at_once = false;
};

/// Whether the compiled code contains the wait: PTX for 8.0 that the driver compiled for a later GPU does not.
[[nodiscard]] bool has_waits(const cudaFuncAttributes& code);
/// Whether this program's code for the current GPU does. False if there is none.
[[nodiscard]] bool has_waits();

/// The launch configuration for the runtime: all but kernel and arguments.
class LaunchConfig {
 public:
  LaunchConfig(const LaunchShape& shape, bool uses_dependent_launch);
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;
  [[nodiscard]] const cudaLaunchConfig_t& get() const noexcept { return config_; }

 private:
  cudaLaunchAttribute attributes_[2] = {};
  cudaLaunchConfig_t config_{};
};

/// Launches a kernel that waits for its predecessors (see above). cudaGetLastError() reports a refused launch.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), const LaunchShape& shape, const Arguments&... arguments) {
  const auto submit = [&](Parameters... values) {
    void* places[] = {&values...};
    const LaunchConfig config(shape, has_waits());
    static_cast<void>(cudaLaunchKernelExC(&config.get(), reinterpret_cast<const void*>(kernel), places));
  };
  submit(arguments...);
}

/// Submits a kernel that ends when all work before it has ended, for following work that may begin at that point.
void launch_wait(cudaStream_t stream);

/// Whether the submitted work may begin before the preceding kernel has ended. The work is recorded, not run; the
/// addresses passed to it are not read. Throws Error if it cannot be recorded.
[[nodiscard]] bool uses_dependent_launch(const std::function<void(cudaStream_t stream)>& submit);

}  // namespace headroom::cuda
