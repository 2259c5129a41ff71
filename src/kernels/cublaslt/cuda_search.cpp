#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "backends/cuda/cuda_check.cuh"
#include "base/error.hpp"
#include "base/file.hpp"
#include "kernels/cublaslt/algorithm_cache.hpp"
#include "kernels/cublaslt/fill_words.hpp"
#include "kernels/cublaslt/library.cuh"
#include "kernels/cublaslt/search.cuh"

namespace headroom::cublaslt {
namespace {

using cuda::report;

constexpr double kLeastFlops = 2e9;
constexpr std::size_t kLeastWeightBytes = std::size_t{32} << 20;
/// Of b in turn, so that it comes from memory as in a model: more than twice any L2.
constexpr std::size_t kRotatedBytes = std::size_t{160} << 20;
constexpr std::size_t kMostBytes = std::size_t{4} << 30;
constexpr int kRounds = 2;
constexpr int kLaunches = 6;         // of one round
constexpr double kLeastGain = 0.02;  // below this the first stays: the next measurement might say otherwise

/// Bytes from the first element of `batch` matrices of `rows` rows to the end of the last.
std::size_t span_bytes(DType dtype, std::int64_t rows, std::int64_t length, std::int64_t row, std::int64_t batch,
                       std::int64_t batch_stride) {
  const std::int64_t elements = (batch - 1) * batch_stride + (rows - 1) * row + length;
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

std::size_t a_bytes(const ProductSpec& spec) {
  return span_bytes(spec.dtype, spec.m, spec.k, spec.a_row, spec.batch, spec.a_batch);
}
std::size_t b_bytes(const ProductSpec& spec) {
  const std::int64_t rows = spec.transpose_b ? spec.n : spec.k;
  const std::int64_t length = spec.transpose_b ? spec.k : spec.n;
  return span_bytes(spec.dtype, rows, length, spec.b_row, spec.batch, spec.b_batch);
}
std::size_t c_bytes(const ProductSpec& spec) {
  return span_bytes(spec.c_dtype, spec.m, spec.n, spec.c_row, spec.batch, spec.c_batch);
}

template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* owned) const {
    report(kDestroy(owned));
  }
};
using Memory = std::unique_ptr<std::byte, Destroy<cudaFree>>;
using Event = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;

/// Device memory for the time of a measurement, taken beside any pool; null where there is not enough.
Memory allocate(std::size_t bytes) {
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) == cudaSuccess) return Memory(static_cast<std::byte*>(data));
  static_cast<void>(cudaGetLastError());  // so that the next call does not report it
  return nullptr;
}

Event make_event() {
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreate(&event));
  return Event(event);
}

class Stopwatch {
 public:
  Stopwatch() : begin_(make_event()), end_(make_event()) {
    cudaStream_t stream = nullptr;
    cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    stream_.reset(stream);
  }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }

  /// Milliseconds that the device spends on what `submit` puts into the stream.
  template <typename Submit>
  [[nodiscard]] double time(const Submit& submit) {
    cuda::check(cudaEventRecord(begin_.get(), stream()));
    submit();
    cuda::check(cudaEventRecord(end_.get(), stream()));
    cuda::check(cudaEventSynchronize(end_.get()));
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    return static_cast<double>(milliseconds);
  }

 private:
  std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>> stream_;
  Event begin_, end_;
};

/// Fills `bytes`, a multiple of 4, with elements of random sign and mantissa between 1/2 and 1.
void fill_random(void* stream, DType dtype, void* data, std::size_t bytes) {
  // What is kept of 32 random bits, and what is set: the exponent of 1/2 in each element.
  switch (dtype) {
    case DType::kF32:
      return launch_fill_words(stream, 0x807FFFFFU, 0x3F000000U, data, bytes / 4);
    case DType::kBF16:
      return launch_fill_words(stream, 0x807F807FU, 0x3F003F00U, data, bytes / 4);
    case DType::kF16:
      return launch_fill_words(stream, 0x83FF83FFU, 0x38003800U, data, bytes / 4);
    default:
      HR_CHECK(dtype == DType::kF8E4M3);
      return launch_fill_words(stream, 0x87878787U, 0x30303030U, data, bytes / 4);
  }
}

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// The milliseconds a launch of each candidate takes; nothing without memory. Random operands: a product of zeros draws
/// less power and runs faster.
std::vector<double> measure(const ProductSpec& spec, std::span<const Candidate> candidates,
                            const LaunchCandidate& launch) {
  const std::size_t copies = std::clamp<std::size_t>(kRotatedBytes / b_bytes(spec) + 1, 2, 64);
  const std::size_t b_step = aligned(b_bytes(spec));
  const std::size_t bias_at = aligned(a_bytes(spec)) + copies * b_step;
  const std::size_t scales_at = bias_at + aligned(static_cast<std::size_t>(spec.n) * sizeof(float));
  const std::size_t c_at = scales_at + aligned(static_cast<std::size_t>(spec.n + spec.m) * sizeof(float));
  const std::size_t workspace_at = c_at + aligned(c_bytes(spec));
  const std::size_t workspace_bytes = std::ranges::max(candidates, {}, &Candidate::workspace_bytes).workspace_bytes;
  const std::size_t total = workspace_at + workspace_bytes;
  if (total > kMostBytes) return {};
  const Memory memory = allocate(total);
  if (memory == nullptr) return {};

  Stopwatch watch;
  std::byte* const base = memory.get();
  fill_random(watch.stream(), spec.dtype, base, bias_at);
  fill_random(watch.stream(), spec.c_dtype, base + bias_at, scales_at - bias_at);
  fill_random(watch.stream(), DType::kF32, base + scales_at, c_at - scales_at);

  std::size_t turn = 0;
  const auto run = [&](const Candidate& candidate) {
    const auto* const scales = reinterpret_cast<const float*>(base + scales_at);
    launch(watch.stream(),
           {.a = base,
            .b = base + aligned(a_bytes(spec)) + turn++ % copies * b_step,
            .bias = spec.has_bias ? base + bias_at : nullptr,
            .c = base + c_at,
            .a_scale = scales,
            .b_scale = scales + spec.m},
           candidate, base + workspace_at);
  };
  std::vector<double> least_ms(candidates.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      try {
        run(candidates[i]);
        const double ms = watch.time([&] {
          for (int launches = 0; launches < kLaunches; ++launches) run(candidates[i]);
        });
        least_ms[i] = std::min(least_ms[i], ms / kLaunches);
      } catch (const Error&) {  // listed, and refused when launched: not a choice
        least_ms[i] = std::numeric_limits<double>::infinity();
      }
    }
  return least_ms;
}

std::string driver_version() {
  try {
    std::string text = read_file("/sys/module/nvidia/version");
    text.resize(std::min(text.find('\n'), text.size()));
    return text;
  } catch (const Error&) {  // not told here; what CUDA it supports is
    int version = 0;
    cuda::check(cudaDriverGetVersion(&version));
    return fmt::format("CUDA {}", version);
  }
}

/// This GPU, driver and library.
const AlgorithmCache::Machine& machine() {
  static const AlgorithmCache::Machine kMachine = [] {
    int device = 0;
    cudaDeviceProp properties{};
    cuda::check(cudaGetDevice(&device));
    cuda::check(cudaGetDeviceProperties(&properties, device));
    return AlgorithmCache::Machine{.device = properties.name,
                                   .driver = driver_version(),
                                   .library = fmt::format("cuBLASLt {}", library().GetVersion())};
  }();
  return kMachine;
}

std::string to_hex(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::byte byte : std::as_bytes(std::span(&algorithm, 1)))
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

/// Nothing where the text is not what to_hex() makes.
std::optional<cublasLtMatmulAlgo_t> from_hex(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  const std::span bytes = std::as_writable_bytes(std::span(&algorithm, 1));
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * bytes.size() || text.find_first_not_of(kDigits) != std::string::npos) return std::nullopt;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(16 * kDigits.find(text[2 * i]) + kDigits.find(text[2 * i + 1]));
  return algorithm;
}

}  // namespace

bool is_worth_searching(const ProductSpec& spec) {
  const double flops = 2.0 * static_cast<double>(spec.batch) * static_cast<double>(spec.m) *
                       static_cast<double>(spec.n) * static_cast<double>(spec.k);
  return flops >= kLeastFlops || b_bytes(spec) >= kLeastWeightBytes;
}

std::optional<Choice> find_fastest(const ProductSpec& spec, std::span<const Candidate> candidates,
                                   const RunsHere& runs_here, const LaunchCandidate& launch) {
  const std::optional<AlgorithmCache> cache = AlgorithmCache::of_user(machine());
  const std::string key = to_text(spec);
  if (cache) {
    if (const std::optional<std::string> kept = cache->find(key)) {
      const std::optional<cublasLtMatmulAlgo_t> algorithm = from_hex(*kept);
      const std::optional<std::size_t> bytes = algorithm ? runs_here(*algorithm) : std::nullopt;
      if (bytes) return Choice{.candidate = {*algorithm, *bytes}, .is_measured = true};
    }
  }
  const std::vector<double> ms = measure(spec, candidates, launch);
  if (ms.empty()) return Choice{.candidate = candidates.front(), .is_measured = false};
  auto fastest = static_cast<std::size_t>(std::ranges::min_element(ms) - ms.begin());
  if (!std::isfinite(ms[fastest])) return std::nullopt;
  if (ms[fastest] > (1 - kLeastGain) * ms.front()) fastest = 0;
  if (cache) cache->store(key, to_hex(candidates[fastest].algorithm), 1e3 * ms[fastest]);
  return Choice{.candidate = candidates[fastest], .is_measured = true};
}

}  // namespace headroom::cublaslt
