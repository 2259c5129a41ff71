#pragma once

#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "base/tensors/shape.hpp"
#include "kernels/core/library_kernel.hpp"

/// Code that the oneDNN kernels share: descriptors, errors, thread teams, and launching a primitive without
/// allocating.
namespace headroom::onednn {

/// The CPU, as oneDNN sees it. It has no state of its own.
[[nodiscard]] const dnnl::engine& cpu_engine();

/// For f32, bf16 or i8, the dtypes that these kernels take; anything else breaks an invariant.
[[nodiscard]] dnnl::memory::desc describe(DType dtype, const Shape& shape, const Shape& strides);
[[nodiscard]] dnnl::memory::desc describe(const Operand& operand);
/// Any layout that oneDNN likes best.
[[nodiscard]] dnnl::memory::desc describe_any(DType dtype, const Shape& shape);

/// Whether the elements lie in plain strides, without blocks.
[[nodiscard]] bool is_plain(const dnnl::memory::desc& desc);
/// The layout as stable text: dtype, extents, padding, strides and blocks. Equal texts mean equal bytes.
[[nodiscard]] std::string layout_name(const dnnl::memory::desc& desc);
/// Converts from one layout into another, with zeros as its padding.
void repack(const dnnl::memory::desc& dense, const void* from, const dnnl::memory::desc& wanted, void* to);
/// Has `plan` pack its input `weight` from one layout into another, with zeros as its padding; does nothing if they
/// are equal.
void pack_weight(KernelPlan& plan, int weight, const dnnl::memory::desc& dense, const dnnl::memory::desc& wanted);

/// Attributes that make the caller provide scratch memory.
[[nodiscard]] dnnl::primitive_attr attributes_with_user_scratch();

/// Appends an activation to the library's post-ops; all but relu, in which the library makes 0 of NaN
/// (onednn/relu.hpp).
void append_activation(dnnl::post_ops& end, Activation activation);

/// While it lives, the calling thread's OpenMP team has this size. oneDNN divides work by it when a primitive is made,
/// so it must be the same when the primitive runs, on whatever thread that is.
class [[nodiscard]] TeamSize {
 public:
  explicit TeamSize(int threads);
  ~TeamSize();
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  int before_;
};

/// Runs `body`; if oneDNN fails, throws Error that names `what`, the work.
template <typename Body>
auto checked(std::string_view what, const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    fail("{}: oneDNN failed: {} (status {})", what, error.what(), static_cast<int>(error.status));
  }
}

/// kPlan() for a kernel's traits: with the team that will run the plan, and oneDNN's failures as Error.
template <KernelPlan (*kPlan)(const KernelBinding&)>
KernelPlan planned(const KernelBinding& binding) {
  const TeamSize team(binding.threads);
  return checked(name_of(binding.spec.op), [&] { return kPlan(binding); });
}

/// Whether an implementation of that name is one of oneDNN's slow references.
[[nodiscard]] inline bool is_reference(std::string_view implementation) {
  return implementation.find("ref") != std::string_view::npos;
}

/// Nothing where oneDNN has a fast implementation for the descriptor that `make` returns, on this CPU, else the reason
/// why not. The primitives that oneDNN calls "ref" are its slow test references and count as none.
template <typename Make>
Support find_fast_implementation(const Target& target, const Make& make) {
  const TeamSize team(target.threads);
  try {
    const std::string name = make().impl_info_str();
    if (!is_reference(name)) return std::nullopt;
    return Rejection{fmt::format("oneDNN has only its slow reference ({}) for these types on this CPU", name)};
  } catch (const dnnl::error& error) {
    return Rejection{fmt::format("oneDNN has no implementation for these types on this CPU ({})", error.what())};
  }
}

/// Why oneDNN cannot take operands of these sizes: where their rows are more than an int counts, it divides by zero.
[[nodiscard]] Support check_sizes(const OpSpec& spec);

/// Why oneDNN cannot compute in `dtype` on `target`, for kernels that take f32 and bf16.
[[nodiscard]] Support check_dtype(DType dtype, const Target& target);

/// A primitive bound to its arguments' layouts. Each run is given the addresses, and allocates nothing. Runs from
/// several threads are serialized, because oneDNN's memory objects hold the addresses.
class Call {
 public:
  /// Addresses; those of arguments that the primitive does not have are ignored.
  struct Operands {
    const void* src = nullptr;
    const void* weights = nullptr;
    const void* bias = nullptr;
    void* dst = nullptr;
    void* scratch = nullptr;
  };

  Call(const dnnl::primitive_desc_base& description, int threads);

  /// Throws Error where oneDNN fails.
  void run(const Operands& operands) const;

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  int threads_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  mutable std::mutex mutex_;
  mutable bool has_run_ = false;
};

/// The operands of a launch, in the order of ours: x, weight, bias.
[[nodiscard]] Call::Operands operands_of(const LaunchArguments& arguments);
/// A primitive on these, as it is.
[[nodiscard]] KernelPlan plan_call(const dnnl::primitive_desc_base& description, int threads);

/// `bytes` in whole cache lines, as scratch is handed out.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) { return divide_up(bytes, 64) * 64; }

}  // namespace headroom::onednn
