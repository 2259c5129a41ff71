#pragma once

#include <initializer_list>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "kernels/kernel.hpp"

/// What the oneDNN kernels share: descriptors, errors, thread teams, and launching a primitive without allocating.
namespace headroom::onednn {

/// The CPU, as oneDNN sees it. It has no state of its own.
[[nodiscard]] const dnnl::engine& cpu_engine();

/// oneDNN's name for f32, bf16 or i8, the dtypes that these kernels take; anything else breaks an invariant.
[[nodiscard]] dnnl::memory::data_type data_type_of(DType dtype);
[[nodiscard]] dnnl::memory::desc describe(DType dtype, const Shape& shape, const Shape& strides);
[[nodiscard]] dnnl::memory::desc describe(const Operand& operand);
/// Any layout that oneDNN likes best.
[[nodiscard]] dnnl::memory::desc describe_any(DType dtype, const Shape& shape);

/// Whether the elements lie in plain strides, without blocks.
[[nodiscard]] bool is_plain(const dnnl::memory::desc& desc);
/// The layout as stable text: dtype, extents, padding, strides and blocks. Equal texts mean equal bytes.
[[nodiscard]] std::string layout_name(const dnnl::memory::desc& desc);
/// Copies elements from one layout to another, filling what the target pads with zeros.
void convert_layout(const dnnl::memory::desc& from_desc, const void* from, const dnnl::memory::desc& to_desc, void* to);

/// Attributes that make the caller provide scratch memory.
[[nodiscard]] dnnl::primitive_attr attributes_with_user_scratch();

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

/// Runs `body`; where oneDNN fails, throws Error that names `kernel`.
template <typename Body>
auto checked(std::string_view kernel, const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    fail("{}: oneDNN failed: {} (status {})", kernel, error.what(), static_cast<int>(error.status));
  }
}

/// Nothing where oneDNN has a fast implementation for the descriptor that `make` returns, on this CPU, else the reason
/// why not. The primitives that oneDNN calls "ref" are its slow test references and count as none.
template <typename Make>
Support find_fast_implementation(const Make& make) {
  try {
    const std::string name = make().impl_info_str();
    if (name.find("ref") == std::string::npos) return std::nullopt;
    return Rejection{fmt::format("oneDNN has only its slow reference ({}) for these types on this CPU", name)};
  } catch (const dnnl::error& error) {
    return Rejection{fmt::format("oneDNN has no implementation for these types on this CPU ({})", error.what())};
  }
}

/// Why oneDNN cannot take operands of these sizes: where their rows are more than an int counts, it divides by zero.
[[nodiscard]] Support check_sizes(const OpSpec& spec);

/// Why oneDNN cannot compute in `dtype` on `target`, for kernels that take f32 and bf16.
[[nodiscard]] Support check_dtype(DType dtype, const Target& target);

/// A primitive bound to its arguments' layouts. Addresses are given for each run, nothing is allocated then. Runs from
/// several threads take turns, because oneDNN's memory objects hold the addresses.
class Call {
 public:
  struct Address {
    int argument;  ///< DNNL_ARG_*
    const void* data;
  };

  /// `arguments` are DNNL_ARG_* with their layouts; empty layouts (no scratch, no bias) are left out.
  Call(const dnnl::primitive& primitive, int threads,
       std::initializer_list<std::pair<int, dnnl::memory::desc>> arguments);

  /// Runs with these addresses, one for each argument; those of arguments left out are ignored. Throws Error where
  /// oneDNN fails.
  void run(std::initializer_list<Address> addresses) const;

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  int threads_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  mutable std::mutex mutex_;
};

}  // namespace headroom::onednn
