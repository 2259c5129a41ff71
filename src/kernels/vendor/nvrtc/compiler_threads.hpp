#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "kernels/core/generated_kernels.hpp"
#include "kernels/vendor/nvrtc/cubin_cache.hpp"

namespace headroom::nvrtc {

/// A kernel on the thread's current GPU.
class LoadedKernel {
 public:
  /// Loads machine code that has the one kernel `kernel`, all of it: launching allocates nothing. Throws Error.
  explicit LoadedKernel(std::string_view cubin);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  /// Submits it to a stream (cudaStream_t), captured ones too. It may begin before earlier kernels have ended, and
  /// waits for them itself (backends/cuda/early_launch.cuh). `arguments` are addresses of the values, which are
  /// copied, one for each parameter. Throws Error if the launch is refused.
  void launch(void* stream, unsigned blocks, unsigned threads_x, unsigned threads_y,
              std::span<void* const> arguments) const;

  /// Whether it may begin before the previous kernel has ended (programmatic dependent launch): on compute
  /// capability 9.0 and later.
  [[nodiscard]] bool uses_dependent_launch() const noexcept { return uses_dependent_launch_; }
  /// Registers of a thread.
  [[nodiscard]] int registers() const noexcept { return registers_; }
  /// Memory of a thread for values that did not fit in registers, arrays included.
  [[nodiscard]] std::size_t spilled_bytes() const noexcept { return spilled_bytes_; }

 private:
  void* library_ = nullptr;  // cudaLibrary_t
  void* kernel_ = nullptr;   // cudaKernel_t
  int registers_ = 0;
  std::size_t spilled_bytes_ = 0;
  bool uses_dependent_launch_ = false;
};

/// A kernel that is being compiled, or is. Several threads may ask at once.
class PendingKernel {
 public:
  /// Waits for the compiler, loads at the first call, and gives the same kernel at each: on the GPU that is the calling
  /// thread's current one, the compiler's (Backend::make_current). It lives as long as this does. Throws Error with
  /// NVRTC's log where it did not compile, or does not load.
  [[nodiscard]] const LoadedKernel& get() const;
  /// Waits for the compiler alone. Throws Error with NVRTC's log where it did not compile.
  void wait() const;

 private:
  friend class Compiler;
  explicit PendingKernel(std::future<std::string> cubin) : cubin_(std::move(cubin)) {}

  mutable std::mutex mutex_;
  mutable std::shared_future<std::string> cubin_;  // until it is loaded
  mutable std::optional<LoadedKernel> loaded_;
};

/// Compiles kernels for one device: Backend::context. A source that was compiled before, in this process or
/// another, is not compiled again. The cost is counted in the device's GeneratedKernels.
class Compiler {
 public:
  /// Throws Error where obstacle() says that kernels cannot be compiled for the device.
  explicit Compiler(Backend& backend);
  /// For a GPU as Target has it (90 for Hopper) that need not be there until a kernel is loaded.
  explicit Compiler(int compute_capability) : Compiler(compute_capability, nullptr) {}
  /// Waits for running compilations; those not begun fail.
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  /// The kernel of `source`, a complete translation unit (compile_to_cubin) with one `extern "C" __global__ void
  /// kernel(...)`, which begins with a wait for the kernels before it (LoadedKernel::launch). It is loaded from the
  /// disk, or compiled on a thread of the compiler's own, several at once. Equal sources give the same kernel. It
  /// stays loaded as long as the compiler lives.
  [[nodiscard]] std::shared_ptr<const PendingKernel> begin(std::string source);

  /// How many kernels were compiled, those that failed not counted, and how many were found on the disk.
  [[nodiscard]] std::size_t compiled() const noexcept { return own_.compiled; }
  [[nodiscard]] std::size_t from_disk() const noexcept { return own_.from_disk; }
  /// Seconds spent compiling, summed over threads.
  [[nodiscard]] double compile_seconds() const noexcept { return 1e-9 * static_cast<double>(own_.compile_ns); }

 private:
  Compiler(int compute_capability, std::shared_ptr<GeneratedKernels> of_device);
  struct Job {
    const std::string* source = nullptr;  // in kernels_
    std::promise<std::string> cubin;
  };
  void work(const std::stop_token& stop);
  void compile(Job& job);
  void end_job();
  /// Adds to a count, this compiler's and the device's.
  template <class Count, class Amount>
  void count(std::atomic<Count> GeneratedKernels::*member, Amount amount) {
    own_.*member += amount;
    if (of_device_) (*of_device_).*member += amount;
  }

  GeneratedKernels own_;
  std::shared_ptr<GeneratedKernels> of_device_;
  std::string architecture_;
  std::optional<CubinCache> cache_;

  std::mutex mutex_;
  std::size_t unfinished_ = 0;  // jobs
  std::chrono::steady_clock::time_point busy_since_;
  std::condition_variable_any has_jobs_;
  std::map<std::string, std::shared_ptr<const PendingKernel>> kernels_;  // by source
  std::deque<Job> jobs_;
  std::size_t idle_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace headroom::nvrtc
