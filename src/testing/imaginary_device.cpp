#include "testing/imaginary_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "backends/forwarding_backend.hpp"
#include "base/out_of_memory.hpp"
#include "base/text/format.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {
namespace {

constexpr std::size_t kBufferAlignment = 128;  // bytes
constexpr std::int64_t kBlockThreads = 64, kVectorChannels = 12;

std::string obstacle_on_imaginary(Capability capability, const Target& /*target*/) {
  switch (capability) {
    case Capability::kLanes:
    case Capability::kFusedBodies:
      return {};
    case Capability::kBf16:
    case Capability::kBf16Units:
    case Capability::kFp16:
    case Capability::kTf32:
    case Capability::kFp8Matmuls:
    case Capability::kInt8Matmuls:
    case Capability::kQuantizedAttention:
      return "an imaginary device has no units for that precision";
    case Capability::kRecording:
      return "an imaginary device records nothing";
    case Capability::kGeneratedKernels:
      return "kernels of an imaginary device are compiled ahead";
    case Capability::kRanks:
      return "imaginary devices are not joined";
    case Capability::kTiles:
      return "an imaginary device has no caches";
  }
  return "it is unknown here";
}

std::string describe_imaginary(const Target& target) {
  return fmt::format("blocks of {} threads, {} of them", kBlockThreads, target.threads);
}

/// The CPU whose kernels do the work.
Target cpu_behind(const Target& imaginary) {
  Target cpu = imaginary;
  cpu.device = DeviceKind::kCpu;
  return cpu;
}

/// A kernel of the CPU as one of the imaginary device, with its limits.
class ImaginaryKernel final : public Kernel {
 public:
  explicit ImaginaryKernel(const Kernel& of_cpu) : of_cpu_(of_cpu), name_(fmt::format("imaginary.{}", of_cpu.name())) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Op op() const override { return of_cpu_.op(); }
  [[nodiscard]] DeviceKind device() const override { return kImaginary; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (target.device != kImaginary) return Rejection{"runs on imaginary devices"};
    if (spec.attributes.has(attr::kEpilogue) && !spec.attributes[attr::kEpilogue].is_empty()) {
      const TensorType& y = spec.outputs[0];
      const std::int64_t columns = y.shape.rank() == 4 ? y.shape[1] : y.shape[-1];
      if (columns > kBlockThreads) return Rejection{"ends as many columns as a block has threads"};
    }
    return of_cpu_.supports(spec, cpu_behind(target));
  }

  [[nodiscard]] StrideRule input_strides(const OpSpec& spec, int input) const override {
    return narrowed(of_cpu_.input_strides(spec, input));
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& spec, int output) const override {
    return narrowed(of_cpu_.output_strides(spec, output));
  }
  [[nodiscard]] bool may_overwrite(const OpSpec& /*spec*/, int /*input*/, int /*output*/) const override { return false; }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return of_cpu_.compute_type(spec); }
  [[nodiscard]] Cost cost(const OpSpec& spec) const override { return of_cpu_.cost(spec); }

  [[nodiscard]] ImageForm best_images(const OpSpec& spec) const override {
    const auto is_full = [](const TensorType& image) { return image.shape[1] % kVectorChannels == 0; };
    const bool is_fast = is_full(spec.inputs[0]) && is_full(spec.outputs[0]);
    return {.layout = is_fast ? Layout::kChannelsLast : Layout::kRowMajor, .channel_multiple = kVectorChannels};
  }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const DeviceTarget& target) const override {
    return of_cpu_.prepare(spec, inputs, outputs, cpu_behind(target));
  }

 private:
  /// Any strides of the CPU's kernel become those of aligned rows.
  static StrideRule narrowed(const StrideRule& of_cpu) {
    return {of_cpu.form == StrideRule::kDense ? StrideRule::kDense : StrideRule::kInnerDense, kBufferAlignment};
  }

  const Kernel& of_cpu_;
  std::string name_;
};

/// Adds the kernels once.
void add_imaginary_kernels() {
  static const std::list<ImaginaryKernel> kKernels = [] {
    std::list<ImaginaryKernel> kernels;
    std::vector<const Kernel*> added;
    for (const Kernel* of_cpu : kernels_of(DeviceKind::kCpu)) added.push_back(&kernels.emplace_back(*of_cpu));
    add_kernels(added);
    return kernels;
  }();
}

/// Memory of the host that counts as the device's own; copies and fills are the CPU's.
class ImaginaryBackend final : public ForwardingBackend {
 public:
  ImaginaryBackend(int threads, std::size_t memory_bytes) : ForwardingBackend(threads), memory_bytes_(memory_bytes) {
    const Target cpu = ForwardingBackend::properties().target;
    target_ = Target{.device = kImaginary, .cpu_isa = cpu.cpu_isa, .threads = cpu.threads};
  }

  [[nodiscard]] DeviceProperties properties() const override {
    return {.name = "imaginary device",
            .target = target_,
            .memory_bytes = memory_bytes_,
            .available_bytes = memory_bytes_ - memory_use().total};
  }

 protected:
  [[nodiscard]] void* allocate_bytes(std::size_t bytes) override {
    void* data = nullptr;
    if (bytes <= memory_bytes_ - memory_use().total)
      data = std::aligned_alloc(kBufferAlignment, round_up(std::max(bytes, kBufferAlignment), kBufferAlignment));
    if (data == nullptr)
      throw OutOfMemory(
          fmt::format("the imaginary device is out of memory: {} are needed in one block", format_bytes(bytes)));
    return data;
  }

 private:
  DeviceTarget target_;
  std::size_t memory_bytes_;
};

}  // namespace

constinit const DeviceProfile kImaginaryProfile{.name = "imaginary",
                                                .has_launches = true,
                                                .has_own_memory = true,
                                                .alignment = kBufferAlignment,
                                                .obstacle_to = obstacle_on_imaginary,
                                                .describe = describe_imaginary};

std::unique_ptr<Backend> make_imaginary_backend(int threads, std::size_t memory_bytes) {
  add_imaginary_kernels();
  return std::make_unique<ImaginaryBackend>(threads, memory_bytes);
}

}  // namespace headroom
