// group_norm of large channels-last images on Hopper: y = act((x - mean) / sqrt(variance + eps) * weight + bias)
//
// Shapes     x[b, c, h, w], groups of an even number of channels, weight[c] and bias[c] or none -> y[b, c, h, w].
// Dtypes     x, y f32, bf16 or f16; weight and bias the same or f32; f32 arithmetic, one rounding.
// Alignment  pixels in packs of 16 bytes.
// Bytes      x read, and y written, once, except for the part of x that shared memory does not keep: it has 192 KiB
//            of each multiprocessor, 25 MB of an H200. This part is read again, the data read last first, as the
//            second-level cache still has some of it.
// FLOPs      8 an element, and those of the activation.
//
// One launch of persistent blocks, one for each multiprocessor, which run at once. A block takes a run of an
// image's pixels, with all channels, through a ring of stages that bulk copies fill. It sums elements and their
// squares relative to a pivot, the mean of 32 elements of the group, so that nothing cancels. Blocks leave their
// sums in memory and wait at a grid barrier; then each adds up those of all in the same order. Then it goes back
// over its pixels from the last to the first: the ring still holds the last ones, and a stage that has been read is
// refilled with the data a whole ring before it.
//
// Three launches (group_norm_three_launches_cuda.cu) read all of x again, and lose the gap between launches three
// times. Bundles of channels (group_norm_fused_cuda.cu) read only 16 bytes of each pixel if groups are that small, half
// of a sector. In bf16 on an H200, with silu (microseconds, this kernel, and the others): 256x256 of 256
// channels 30 for 80, 1024x1024 of 128 208 for 248, 4 images of 64x64 of 320 13 for 18. Its constant cost is some 9
// us. PTX's programmatic launches would save one of them. They are left out, as PTX does not guarantee that the
// blocks of such a kernel still run at once.
//
// Tried: 256, 384, 768 and 1024 threads (2 to 5 us more); a barrier of all threads at each stage in place of warps
// that signal the stages that they have read (8% more where memory is the limit). Where memory is the limit, also: an
// eighth of each run for whichever block comes first (blocks end together, as late as ever), stages dealt to blocks
// round-robin (1% less), and results stored past caches (no less).

#include <algorithm>
#include <memory>
#include <vector>

#include "base/tensors/divide_up.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/hopper.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launched.hpp"
#include "kernels/core/cuda/optional_vector.cuh"
#include "kernels/core/support.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kPacks = 3;  // of a thread in a stage
constexpr int kMostStages = 8;

/// A launch, all but its addresses.
struct Together {
  DType dtype = DType::kF32, side = DType::kF32;
  Activation activation = Activation::kNone;
  int images = 0, pixels = 0, channels = 0, groups = 0;
  float eps = 0;
  float share = 0;       ///< of a group that an element is
  int blocks = 0;        ///< of an image
  int chunk = 0;         ///< pixels of a block, fewer of the last
  int columns = 0;       ///< packs of a pixel, with a thread each
  int rows = 0;          ///< of threads; some have none
  int stages = 0;        ///< of kPacks packs for each thread of a row
  int shared_bytes = 0;  ///< of a block

  [[nodiscard]] __host__ __device__ int width() const { return channels / groups; }
  [[nodiscard]] __host__ __device__ int row_packs() const { return rows * columns; }
  /// Pairs of channels that a row of threads has sums of, and one more, so that rows begin in different banks.
  [[nodiscard]] __host__ __device__ int sums_pitch() const { return channels / 2 + 1; }
};

struct TogetherOperands {
  const void *x, *weight, *bias;
  void* y;
  float2* partial;         ///< [images, groups, blocks]: sums of elements and of their squares
  std::uint32_t* arrived;  ///< [images, kWordsOfImage]: blocks that have reached the grid barrier
};
constexpr int kWordsOfImage = 32;  // a cache line each

/// A block's work on its run of an image's pixels. Threads are [rows, columns].
template <class T>
class NormRun {
 public:
  static constexpr int kWidth = kFullPack<T>, kPairs = kWidth / 2;
  using Raw = typename Packs<T, kWidth>::Raw;

  __device__ __forceinline__ NormRun(const Together& norm, const TogetherOperands& operands, Raw* shared,
                                     hopper::Barrier* filled, hopper::Barrier* emptied)
      : norm_(norm), operands_(operands), ring_(shared), filled_(filled), emptied_(emptied) {
    sums_ = reinterpret_cast<float2*>(shared + norm.stages * kPacks * norm.row_packs());
    moments_ = sums_ + norm.rows * norm.sums_pitch();
    pivots_ = reinterpret_cast<float*>(moments_ + norm.groups);
    image_ = static_cast<int>(blockIdx.x) / norm.blocks;
    block_ = static_cast<int>(blockIdx.x) - image_ * norm.blocks;
    row_packs_ = norm.row_packs();
    stage_packs_ = kPacks * row_packs_;
    row_ = thread() / norm.columns;
    column_ = thread() - row_ * norm.columns;
    const int first = block_ * norm.chunk;
    packs_ = max(0, min(norm.chunk, norm.pixels - first)) * norm.columns;
    own_packs_ = is_idle() ? 0 : packs_ - thread();
    first_pack_ = (static_cast<std::int64_t>(image_) * norm.pixels + first) * norm.columns;
    steps_ = (packs_ + stage_packs_ - 1) / stage_packs_;
  }

  /// Begins to fill the ring; meanwhile finds pivots, and reads weights.
  __device__ __forceinline__ void begin() {
    if (thread() == 0) {
      for (int stage = 0; stage < norm_.stages; ++stage) {
        hopper::init_barrier(filled_[stage], 1);
        hopper::init_barrier(emptied_[stage], kThreads / kWarp);
      }
      hopper::fence_barrier_init();
      for (int step = 0; step < min(steps_, norm_.stages); ++step) fill(step, step);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      factor_[i] = is_idle() ? 0 : optional_vector_at(operands_.weight, norm_.side, column_ * kWidth + i, 1);
      term_[i] = is_idle() ? 0 : optional_vector_at(operands_.bias, norm_.side, column_ * kWidth + i, 0);
    }
    with_groups([&](int group, bool is_speaker) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < kPivot / kLanes; ++k) {
        const auto pixel = static_cast<int>(static_cast<std::int64_t>(norm_.pixels) * (lane() + k * kLanes) / kPivot);
        sum += to_float(static_cast<const T*>(
            operands_.x)[(static_cast<std::int64_t>(image_) * norm_.pixels + pixel) * norm_.channels +
                         group * norm_.width()]);
      }
      sum = join_lanes(sum);
      if (is_speaker) pivots_[group] = sum / kPivot;
    });
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPairs; ++k) pivot_[k] = is_idle() ? 0 : pivots_[group_of(k)];
  }

  /// Sums elements and their squares, and stores the block's sums of each group in memory.
  __device__ __forceinline__ void add_up() {
    float2 sums[kPairs] = {};
    hopper::RingPlace before;
    for (int step = 0; step < steps_; ++step) {
      if (step > 0) place_.advance(norm_.stages);
      with_packs(step, step + norm_.stages < steps_, [&](int /*pack*/, const float(&values)[kWidth]) {
#pragma unroll
        for (int k = 0; k < kPairs; ++k) {
          const float first = values[2 * k] - pivot_[k], second = values[2 * k + 1] - pivot_[k];
          sums[k].x += first + second;
          sums[k].y = fmaf(first, first, fmaf(second, second, sums[k].y));
        }
      });
      if (step > 0 && step - 1 + norm_.stages < steps_) refill(before, step - 1 + norm_.stages);
      before = place_;
    }
#pragma unroll
    for (int k = 0; k < kPairs; ++k)
      if (!is_idle()) sums_[row_ * norm_.sums_pitch() + column_ * kPairs + k] = sums[k];
    __syncthreads();
    with_groups([&](int group, bool is_speaker) {
      const int pairs = norm_.width() / 2;
      float2 all{};
      for (int row = lane(); row < norm_.rows; row += kLanes)
        for (int k = 0; k < pairs; ++k) add(all, sums_[row * norm_.sums_pitch() + group * pairs + k]);
      all = {join_lanes(all.x), join_lanes(all.y)};
      if (is_speaker) operands_.partial[place_of(group) + block_] = all;
    });
    meet_blocks(operands_.arrived + image_ * kWordsOfImage, norm_.blocks, block_ == 0);
  }

  /// Finds the scale and shift of each of this thread's channels.
  __device__ __forceinline__ void find_moments() {
    with_groups([&](int group, bool is_speaker) {
      float2 all{};
#pragma unroll 4
      for (int block = lane(); block < norm_.blocks; block += kLanes)
        add(all, __ldcg(operands_.partial + place_of(group) + block));
      all = {join_lanes(all.x), join_lanes(all.y)};
      const float beyond = all.x * norm_.share;  // the pivot, that the mean is
      const float variance = fmaf(-beyond, beyond, all.y * norm_.share);
      if (is_speaker) moments_[group] = {beyond, rsqrtf((variance < 0 ? 0 : variance) + norm_.eps)};  // NaN stays
    });
    __syncthreads();
    if (is_idle()) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float2 moments = moments_[group_of(i / 2)];
      factor_[i] *= moments.y;
      term_[i] = fmaf(-moments.x, factor_[i], term_[i]);
    }
  }

  /// Writes results, from the last pixels to the first. U-Nets and VAEs have silu; the other activations share one
  /// copy, as they would be most of the code.
  template <bool kIsSilu>
  __device__ __forceinline__ void write() {
    T* const y = static_cast<T*>(operands_.y) + first_pack_ * kWidth;
    hopper::RingPlace before;
    for (int step = steps_ - 1; step >= 0; --step) {
      with_packs(step, step >= norm_.stages, [&](int pack, float(&values)[kWidth]) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const float normed = fmaf(values[i] - pivot_[i / 2], factor_[i], term_[i]);
          values[i] = kIsSilu ? formula<Op::kSilu>(normed) : activate(norm_.activation, normed);
        }
        Packs<T, kWidth>::store(values, y + static_cast<std::int64_t>(pack) * kWidth);
      });
      if (step + 1 < steps_ && step + 1 >= norm_.stages) refill(before, step + 1 - norm_.stages);
      before = place_;
      go_back();
    }
  }

 private:
  static constexpr int kWarp = 32;
  static constexpr int kPivot = 32;  // elements that a pivot is the mean of
  static constexpr int kLanes = 16;  // that look after a group

  /// The grid barrier of an image's blocks, of which one is the first: all see afterwards the earlier writes of any
  /// of them. The counter's highest bit changes with the last arrival, and all others are 0 again.
  static __device__ __forceinline__ void meet_blocks(std::uint32_t* arrived, int blocks, bool is_first) {
    constexpr std::uint32_t kTurn = 1U << 31;
    __syncthreads();
    if (threadIdx.x == 0) {
      const std::uint32_t step = is_first ? kTurn - static_cast<std::uint32_t>(blocks - 1) : 1;
      std::uint32_t before, now;
      asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(arrived), "r"(step) : "memory");
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
      } while (((before ^ now) & kTurn) == 0);
    }
    __syncthreads();
  }
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int lane() { return thread() % kLanes; }
  /// The sum over them, in all of them. All threads of a warp ask together.
  static __device__ __forceinline__ float join_lanes(float value) {
#pragma unroll
    for (int apart = kLanes / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, apart);
    return value;
  }
  static __device__ __forceinline__ void add(float2& to, float2 what) {
    to.x += what.x;
    to.y += what.y;
  }
  /// Calls use(group, whether this lane represents it) for each of an image's groups, with the lanes that are
  /// assigned to it. Lanes without a group take part too.
  template <class Use>
  __device__ __forceinline__ void with_groups(const Use& use) const {
    for (int group = thread() / kLanes; group - thread() / kLanes < norm_.groups; group += kThreads / kLanes)
      use(min(group, norm_.groups - 1), lane() == 0 && group < norm_.groups);
  }
  __device__ __forceinline__ bool is_idle() const { return row_ >= norm_.rows; }
  /// The group of a pair of this thread's channels.
  __device__ __forceinline__ int group_of(int pair) const { return (column_ * kWidth + 2 * pair) / norm_.width(); }
  __device__ __forceinline__ std::int64_t place_of(int group) const {
    return static_cast<std::int64_t>(image_ * norm_.groups + group) * norm_.blocks;
  }
  /// To the stage of the step before.
  __device__ __forceinline__ void go_back() {
    if (place_.stage-- != 0) return;
    place_.stage = norm_.stages - 1;
    place_.phase ^= 1;
  }
  __device__ __forceinline__ void fill(int step, int stage) {
    const int begin = step * stage_packs_;
    const auto bytes = static_cast<std::uint32_t>(min(stage_packs_, packs_ - begin)) * 16;
    hopper::arrive_expecting(filled_[stage], bytes);
    hopper::copy_bytes(ring_ + stage * stage_packs_, static_cast<const Raw*>(operands_.x) + first_pack_ + begin, bytes,
                       filled_[stage]);
  }
  /// One thread refills a stage for `step`, one step after its use: by then all warps have read it.
  __device__ __forceinline__ void refill(const hopper::RingPlace& place, int step) {
    if (thread() != 0) return;
    hopper::wait(emptied_[place.stage], place.phase);
    fill(step, place.stage);
  }
  /// Calls use(number in the run, values) for each pack of a step that is this thread's, once the current stage has
  /// it. If another step will use the stage, it first signals that the stage has been read.
  template <class Use>
  __device__ __forceinline__ void with_packs(int step, bool is_left, const Use& use) const {
    hopper::wait(filled_[place_.stage], place_.phase);
    const Raw* const packs = ring_ + place_.stage * stage_packs_ + thread();
    const int begin = step * stage_packs_;
    Raw raw[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k)
      if (begin + k * row_packs_ < own_packs_) raw[k] = packs[k * row_packs_];
    if (is_left) {
      __syncwarp();
      if (thread() % kWarp == 0) hopper::arrive(emptied_[place_.stage]);
    }
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (begin + k * row_packs_ >= own_packs_) continue;
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[k], values);
      use(begin + thread() + k * row_packs_, values);
    }
  }

  const Together& norm_;
  const TogetherOperands& operands_;
  // In shared memory.
  Raw* ring_;                ///< [stages, packs]
  float2 *sums_, *moments_;  ///< [rows, sums_pitch()]; [groups]: mean beyond the pivot, and inverse of the spread
  float* pivots_;            ///< [groups]
  hopper::Barrier *filled_, *emptied_;  ///< [stages]
  int image_, block_, row_, column_, row_packs_, stage_packs_;
  int packs_, own_packs_, steps_;  ///< of the run, of them from this thread's first on, and how many stages they fill
  std::int64_t first_pack_;
  /// The place of the current step. Forwards and backwards a stage gets steps a ring apart. So the second time each
  /// step is in the phase of the first time, both for being filled and for being emptied.
  hopper::RingPlace place_;
  float pivot_[kPairs], factor_[kWidth], term_[kWidth];
};

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    norm_together(const __grid_constant__ Together norm, const __grid_constant__ TogetherOperands operands) {
  wait_for_previous();
  if constexpr (HR_HAS_HOPPER) {
    extern __shared__ uint4 shared[];
    __shared__ hopper::Barrier filled[kMostStages], emptied[kMostStages];
    NormRun<T> run(norm, operands, reinterpret_cast<typename NormRun<T>::Raw*>(shared), filled, emptied);
    run.begin();
    run.add_up();
    run.find_moments();
    norm.activation == Activation::kSilu ? run.template write<true>() : run.template write<false>();
  }
}

Together prepare(const OpSpec& spec, int multiprocessors) {
  const TensorType& x = spec.inputs[0];
  Together norm;
  norm.dtype = x.dtype;
  norm.side = spec.inputs.back().dtype;
  norm.activation = only_activation_of(spec);
  norm.images = static_cast<int>(x.shape[0]);
  norm.pixels = static_cast<int>(x.shape[2] * x.shape[3]);
  norm.channels = static_cast<int>(x.shape[1]);
  norm.groups = static_cast<int>(spec.attributes[attr::kGroups]);
  norm.eps = static_cast<float>(spec.attributes[attr::kEps]);
  norm.share = 1.0F / (static_cast<float>(norm.pixels) * static_cast<float>(norm.width()));
  norm.blocks = multiprocessors / norm.images;
  norm.chunk = divide_up(norm.pixels, norm.blocks);
  norm.columns = norm.channels * static_cast<int>(size_of(x.dtype)) / 16;
  norm.rows = kThreads / norm.columns;
  const int stage_packs = kPacks * norm.row_packs();
  norm.stages = std::min(divide_up(norm.chunk * norm.columns, stage_packs), kMostStages);
  norm.shared_bytes = norm.stages * stage_packs * 16 +
                      static_cast<int>(sizeof(float2)) * (norm.rows * norm.sums_pitch() + norm.groups) +
                      static_cast<int>(sizeof(float)) * norm.groups;
  return norm;
}

KernelPlan plan(const KernelBinding& binding) {
  const Together norm = prepare(binding.spec, binding.target.multiprocessors);
  Backend& backend = backend_of(binding);
  const std::vector<std::uint32_t> none(static_cast<std::size_t>(kWordsOfImage * norm.images));
  const std::size_t bytes = none.size() * sizeof(std::uint32_t);
  const auto arrived = std::make_shared<Buffer>(backend.allocate(bytes, MemoryCategory::kWorkspace));
  const std::unique_ptr<Stream> stream = backend.make_stream();
  backend.copy_from_host(*stream, arrived->at(), none.data(), bytes);
  stream->synchronize();
  const auto launch = [norm, arrived](const LaunchArguments& arguments) {
    const TogetherOperands operands{.x = arguments.input(0),
                                    .weight = arguments.optional_input(1),
                                    .bias = arguments.optional_input(2),
                                    .y = arguments.output(0),
                                    .partial = arguments.scratch_memory<float2>(),
                                    .arrived = arrived->at().address<std::uint32_t>()};
    with_type_of(norm.dtype, [&](auto type) {
      LaunchShape shape =
          large_shape(norm.images * norm.blocks, kThreads, norm.shared_bytes, arguments.stream.native_handle());
      shape.is_whole_at_once = true;
      launch_large(norm_together<decltype(type)>, shape, norm, operands);
    });
    check_launched("cuda group_norm kernel whose blocks meet");
  };
  return {.launch = launch,
          .scratch_bytes = sizeof(float2) * static_cast<std::size_t>(norm.images * norm.groups * norm.blocks),
          .implementation = fmt::format("{} blocks an image", norm.blocks)};
}

class GroupNormTogether : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    constexpr std::size_t kLeastBytes = std::size_t{8} << 20;  // below, grid barriers cost more than the bytes
    constexpr std::int64_t kMostPixels = std::int64_t{1} << 30, kMostGroups = 256;
    if (Support support = CudaKernel::supports(spec, target)) return support;
    if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
    if (target.compute_capability != 90) return Rejection{"takes a GPU of compute capability 9.0"};
    const TensorType& x = spec.inputs[0];
    if (x.shape.rank() != 4 || x.layout != Layout::kChannelsLast) return Rejection{"takes channels-last images"};
    const std::int64_t channels = x.shape[1], pixels = x.shape[2] * x.shape[3];
    const std::int64_t groups = spec.attributes[attr::kGroups], counted = spec.attributes[attr::kChannels];
    const std::int64_t bytes = channels * static_cast<std::int64_t>(size_of(x.dtype));
    if ((counted != 0 && counted != channels) || channels / groups % 2 != 0 || bytes % 16 != 0 ||
        bytes / 16 > kThreads || groups > kMostGroups)
      return Rejection{"takes channels in packs of 16 bytes, and groups of an even number of them"};
    // Blocks are as many for each image, and images are not many: few multiprocessors have none.
    if (x.bytes() < kLeastBytes || pixels > kMostPixels || x.shape[0] > target.multiprocessors / 8)
      return Rejection{"takes images that are few and large"};
    return std::nullopt;
  }
};

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_group_norm_together() {
  static const cuda::GroupNormTogether kernel({.name = "cuda.group_norm_together",
                                               .op = Op::kGroupNorm,
                                               .supports = cuda::supports_elements,
                                               .strides = StrideRule(StrideRule::kDense, 16),
                                               .in_place = true,
                                               .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
