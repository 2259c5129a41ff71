#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/early_launch.cuh"
#include "base/error.hpp"
#include "kernels/vendor/nvrtc/compile_to_cubin.hpp"
#include "kernels/vendor/nvrtc/compiler_threads.hpp"

namespace headroom::nvrtc {
namespace {

constexpr std::size_t kMostThreads = 16;

std::int64_t ns_since(std::chrono::steady_clock::time_point start) {
  return (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
}

std::size_t most_threads() { return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads); }

}  // namespace

LoadedKernel::LoadedKernel(std::string_view cubin) {
  cudaLibrary_t library = nullptr;
  cuda::check(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  library_ = library;
  try {
    cudaKernel_t kernel = nullptr;
    cuda::check(cudaLibraryGetKernel(&kernel, library, "kernel"));
    kernel_ = kernel;
    // Also loads the code, which is otherwise done at the first launch.
    cudaFuncAttributes attributes{};
    cuda::check(cudaFuncGetAttributes(&attributes, kernel_));
    registers_ = attributes.numRegs;
    spilled_bytes_ = attributes.localSizeBytes;
    uses_dependent_launch_ = cuda::has_waits(attributes);
  } catch (const Error&) {
    cuda::report(cudaLibraryUnload(library));
    throw;
  }
}

LoadedKernel::~LoadedKernel() { cuda::report(cudaLibraryUnload(static_cast<cudaLibrary_t>(library_))); }

void LoadedKernel::launch(void* stream, unsigned blocks, unsigned threads_x, unsigned threads_y,
                          std::span<void* const> arguments) const {
  const cuda::LaunchConfig config(
      {.blocks = dim3(blocks), .threads = dim3(threads_x, threads_y), .stream = static_cast<cudaStream_t>(stream)},
      uses_dependent_launch_);
  cuda::check(cudaLaunchKernelExC(&config.get(), kernel_, const_cast<void**>(arguments.data())));
}

const LoadedKernel& PendingKernel::get() const {
  const std::scoped_lock lock(mutex_);
  if (!loaded_) {
    loaded_.emplace(cubin_.get());
    cubin_ = {};  // the driver has its own copy
  }
  return *loaded_;
}

void PendingKernel::wait() const {
  const std::scoped_lock lock(mutex_);
  if (!loaded_) static_cast<void>(cubin_.get());
}

Compiler::Compiler(Backend& backend)
    : Compiler(backend.properties().target.compute_capability, backend.context<GeneratedKernels>()) {}

Compiler::Compiler(int compute_capability, std::shared_ptr<GeneratedKernels> of_device)
    : of_device_(std::move(of_device)), cache_(CubinCache::of_user()) {
  if (const std::string reason = obstacle(compute_capability); !reason.empty()) throw Error(reason);
  architecture_ = fmt::format("sm_{}", compute_capability);
}

Compiler::~Compiler() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  for (Job& job : jobs_)
    job.cubin.set_exception(std::make_exception_ptr(Error("a kernel was asked for after its GPU was closed")));
}

std::shared_ptr<const PendingKernel> Compiler::begin(std::string source) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = kernels_.find(source); found != kernels_.end()) return found->second;
  std::promise<std::string> cubin;
  std::shared_ptr<const PendingKernel> kernel(new PendingKernel(cubin.get_future()));
  std::optional<std::string> kept;
  const auto start = std::chrono::steady_clock::now();
  if (cache_) kept = cache_->find(describe_compilation(source, architecture_));
  count(&GeneratedKernels::disk_ns, ns_since(start));
  const auto entry = kernels_.emplace(std::move(source), kernel).first;
  if (kept) {
    count(&GeneratedKernels::from_disk, 1);
    cubin.set_value(std::move(*kept));
    return kernel;
  }
  jobs_.push_back({.source = &entry->first, .cubin = std::move(cubin)});
  if (unfinished_++ == 0) busy_since_ = std::chrono::steady_clock::now();
  if (idle_ < jobs_.size() && threads_.size() < most_threads())
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  has_jobs_.notify_one();
  return kernel;
}

void Compiler::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    const bool has_job = has_jobs_.wait(lock, stop, [&] { return !jobs_.empty(); });
    --idle_;
    if (!has_job || stop.stop_requested()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    compile(job);
    lock.lock();
  }
}

void Compiler::end_job() {
  const std::scoped_lock lock(mutex_);
  if (--unfinished_ == 0) count(&GeneratedKernels::busy_ns, ns_since(busy_since_));
}

void Compiler::compile(Job& job) {
  const auto start = std::chrono::steady_clock::now();
  std::string cubin;
  try {
    cubin = compile_to_cubin(*job.source, architecture_);
  } catch (...) {
    end_job();
    job.cubin.set_exception(std::current_exception());
    return;
  }
  count(&GeneratedKernels::compile_ns, ns_since(start));
  count(&GeneratedKernels::compiled, 1);
  end_job();
  job.cubin.set_value(cubin);  // before the disk, which who waits need not wait for
  if (cache_) cache_->store(describe_compilation(*job.source, architecture_), cubin);
}

}  // namespace headroom::nvrtc
