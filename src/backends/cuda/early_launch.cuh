#pragma once

// Kernels that may begin before those in front of them on the stream have ended (programmatic dependent launch, CUDA C++ Programming
// Guide), so that the launch, the scheduling of blocks and the set-up of one lie over the end of the other: all kernels of ours, on
// compute capability 9.0 and later, on streams and in recordings, whose graphs then have programmatic edges.
//
// Nothing orders such a kernel but its own wait, and without that results are wrong in silence. So each begins with
// wait_for_previous(), before it reads or writes anything but its parameters and shared memory, and every block of it waits, also one
// that has nothing to do: what comes after this kernel waits for it alone, and through it for all before. tests/structure/check_waits.py
// holds sources to that, and the tests of kernels run each behind work that is late (testing/late_work.hpp).
//
// Copies, fills and most kernels of libraries are ordered by the stream as ever, and so is what waits for an event. A library's kernel that
// begins early (uses_dependent_launch() below) and waits for less than all needs launch_wait() in front.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace headroom::cuda {

#ifdef __CUDACC__

/// From here on the next kernel may begin, where multiprocessors have room for it, once all blocks have said so or ended. Otherwise it
/// may when all have ended, which leaves the way from there to the next kernel's blocks, and a convolution no time to copy its weights.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until all kernels before this one have ended, and what they wrote can be read. The next may not begin meanwhile.
__device__ __forceinline__ void wait_alone() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The same, while the next may begin: no block of this one has to wait for room that it takes, as all have theirs by then.
__device__ __forceinline__ void wait_for_previous() {
  let_next_begin();
  wait_alone();
}

#endif  // __CUDACC__

/// Where and in how many threads a kernel runs.
struct LaunchShape {
  dim3 blocks;
  dim3 threads;
  cudaStream_t stream = nullptr;
  std::size_t shared_bytes = 0;
  int cluster = 0;  ///< blocks along x that are one; 0: none are
  /// All blocks run at once, so that they may wait for each other (a cooperative launch): no more than multiprocessors have room for.
  /// Such a kernel does not begin early.
  bool is_whole_at_once = false;
};

/// Whether code that was compiled so has wait_for_previous() in it: PTX for 8.0 that the driver has compiled for a later GPU has not.
[[nodiscard]] bool has_waits(const cudaFuncAttributes& code);
/// Whether the code here has that is for the current GPU. False where there is none.
[[nodiscard]] bool has_waits();

/// What the runtime takes of a launch but for kernel and arguments.
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

/// Launches a kernel that waits for those before it (see above). What is refused, cudaGetLastError() says.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), const LaunchShape& shape, const Arguments&... arguments) {
  const auto submit = [&](Parameters... values) {
    void* places[] = {&values...};
    const LaunchConfig config(shape, has_waits());
    static_cast<void>(cudaLaunchKernelExC(&config.get(), reinterpret_cast<const void*>(kernel), places));
  };
  submit(arguments...);
}

/// Submits a kernel that ends when all before it has, for what behind it may begin when it ends.
void launch_wait(cudaStream_t stream);

/// Whether what is submitted may begin before a kernel in front of it has ended: found by recording it, without running it. Addresses
/// that it is given are not read.
[[nodiscard]] bool uses_dependent_launch(const std::function<void(cudaStream_t stream)>& submit);

}  // namespace headroom::cuda
