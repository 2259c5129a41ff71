#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "base/error.hpp"
#include "base/target.hpp"
#include "ir/fusion_rules.hpp"
#include "ir/infer.hpp"

namespace headroom {

/// Why a kernel does not run an op, in words a user reads in `headroom plan`.
struct Rejection {
  std::string reason;
};
/// Nothing: supported. Otherwise the reason why not.
using Support = std::optional<Rejection>;

/// A kernel cannot do work that its supports() accepted, for a reason that could not be foreseen: part of a library
/// is missing, say. The message is the reason, in words for `headroom plan`.
class CannotPrepare : public Error {
 public:
  using Error::Error;
};

/// How an operand may lie in memory for a kernel: its strides, and the alignment of those and of its address. Input
/// strides of 0 (broadcasts by stride) are never given.
struct StrideRule {
  enum Form : std::uint8_t {
    kDense,       ///< row-major without gaps
    kInnerDense,  ///< innermost stride 1, any positive strides outside
    kAny,         ///< any positive strides
  };

  // NOLINTNEXTLINE(google-explicit-constructor): most rules are a form alone
  constexpr StrideRule(Form form_of, std::size_t bytes = 1) : form(form_of), alignment(bytes) {}

  Form form;
  /// In bytes: of the address, and, unless the operand is dense, of every stride but one of a single element.
  std::size_t alignment;
};

/// One operand as it lies in memory: strides in elements.
struct Operand {
  TensorType type;
  Shape strides;
  friend bool operator==(const Operand&, const Operand&) = default;
};
[[nodiscard]] Operand dense_operand(const TensorType& type);
[[nodiscard]] bool is_dense(const Operand& operand);

/// Which unit does the arithmetic: FLOPs count against its rate, bytes against bandwidth.
enum class ComputeUnit : std::uint8_t { kNone, kVector, kMatrix };

/// The least work an op must do: each input read once, each output written once, and its arithmetic.
struct Cost {
  double bytes = 0;
  double flops = 0;
  ComputeUnit unit = ComputeUnit::kVector;
};

/// A weight in the form a kernel wants: `layout` names the form, equal names mean equal bytes, so packed copies are
/// shared.
struct PackedWeight {
  int input = 0;
  std::string layout;
  std::size_t bytes = 0;
};

struct LaunchArguments {
  Stream& stream;
  std::span<const DevicePointer> inputs;  ///< packed where the kernel asked for it
  std::span<const DevicePointer> outputs;
  DevicePointer scratch;  ///< scratch_bytes() from here on, contents undefined

  // On devices whose buffers have addresses:
  template <class T = void>
  [[nodiscard]] const T* input(std::size_t index) const {
    return inputs[index].address<const T>();
  }
  /// Null where the op was not given it.
  template <class T = void>
  [[nodiscard]] const T* optional_input(std::size_t index) const {
    return index < inputs.size() ? input<T>(index) : nullptr;
  }
  template <class T = void>
  [[nodiscard]] T* output(std::size_t index) const {
    return outputs[index].address<T>();
  }
  template <class T = void>
  [[nodiscard]] T* scratch_memory() const {
    return scratch.address<T>();
  }
};

/// A kernel bound to shapes, dtypes and strides.
struct KernelPlan {
  /// Chooses and allocates nothing; on a GPU it submits to the stream and returns.
  std::function<void(const LaunchArguments&)> launch;
  std::size_t scratch_bytes = 0;
  std::string implementation = {};  ///< of the arithmetic, as the library reports it: "brgemm:avx512_core_bf16"
  std::vector<PackedWeight> packed = {};
  /// Set if there is a packed weight; on a GPU it submits to the stream and returns.
  std::function<void(Stream& stream, DevicePointer dense, DevicePointer packed)> pack = {};
  /// Waits for work begun elsewhere, and makes choices that need measurements; called once, before the first launch and
  /// when all kernels of a plan are prepared. Throws CannotPrepare.
  std::function<void()> finish = {};
};

/// A kernel ready to be launched.
class PreparedKernel {
 public:
  explicit PreparedKernel(KernelPlan plan) : plan_(std::move(plan)) {}
  [[nodiscard]] std::size_t scratch_bytes() const { return plan_.scratch_bytes; }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const { return plan_.packed; }
  [[nodiscard]] const std::string& implementation() const { return plan_.implementation; }
  /// Writes the packed form of packed_weights()[index] from the dense weight; both on the device.
  void pack(Stream& stream, std::size_t index, DevicePointer dense, DevicePointer packed) const {
    HR_CHECK_LT(index, plan_.packed.size());
    plan_.pack(stream, dense, packed);
  }
  void finish() const {
    if (plan_.finish) plan_.finish();
  }
  void launch(const LaunchArguments& arguments) const { plan_.launch(arguments); }

 private:
  KernelPlan plan_;
};

/// One implementation of an op on one kind of device. Stateless.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Unique and stable, who wrote it and the op: "onednn.linear". amx, highway, plain and cuda are written here.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The operation it runs; it is a candidate for nodes of that op alone.
  [[nodiscard]] virtual Op op() const = 0;
  [[nodiscard]] virtual DeviceKind device() const = 0;
  [[nodiscard]] virtual Support supports(const OpSpec& spec, const Target& target) const = 0;
  /// How each operand may lie; dense unless said. A dense one at an aligned address is taken in any case.
  [[nodiscard]] virtual StrideRule input_strides(const OpSpec& spec, int input) const;
  [[nodiscard]] virtual StrideRule output_strides(const OpSpec& spec, int output) const;
  /// Whether that output may be written over that input, given equal types and strides. Several outputs may each be
  /// written over an input of their own at the same time.
  [[nodiscard]] virtual bool may_overwrite(const OpSpec& spec, int input, int output) const;
  /// Of a convolution: the form in which its images are fastest.
  [[nodiscard]] virtual ImageForm best_images(const OpSpec& /*spec*/) const { return {}; }
  /// The dtype the arithmetic runs in: bf16 GEMMs accumulate in f32 and count as bf16.
  [[nodiscard]] virtual DType compute_type(const OpSpec& spec) const = 0;
  /// The same by name, as plans and results say it: "bf16", or "tf32" for f32 operands that tensor cores round to that.
  [[nodiscard]] virtual std::string_view compute_name(const OpSpec& spec) const;
  [[nodiscard]] virtual Cost cost(const OpSpec& spec) const;
  /// For work that supports() took. Throws CannotPrepare where another kernel may do it instead.
  [[nodiscard]] virtual std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                                std::span<const Operand> outputs,
                                                                const DeviceTarget& target) const = 0;
};

/// The kernels of a device by op, those of one op in the order in which they are tried: the first that supports a node
/// runs it. They are those of the family's list, kernels/FAMILY/kernels.def, and then those that were added. None of a
/// device that the build was made without. Throws Error if they were compiled for one vector unit alone, which this CPU
/// lacks.
[[nodiscard]] std::span<const Kernel* const> kernels_of(DeviceKind device);
/// The kernel of that name, which there must be.
[[nodiscard]] const Kernel& kernel_named(std::string_view name);
/// Adds kernels of another device, in the order in which those of one op are tried. They must live as long as the
/// program, and be added before kernels_of() has returned any of their device. Safe to call from several threads.
void add_kernels(std::span<const Kernel* const> kernels);

}  // namespace headroom
