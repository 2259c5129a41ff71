#include "kernels/vendor/onednn/engine.hpp"

#include <fmt/ranges.h>
#include <omp.h>

#include <cstdint>
#include <limits>
#include <memory>

#include "backends/cpu/memory_limits.hpp"

namespace headroom::onednn {
namespace {

/// The data that may follow the elements of an int8 weight: sums that compensate for the unsigned form of the other
/// operand.
constexpr std::uint64_t kNamedExtras = dnnl_memory_extra_flag_compensation_conv_s8s8;

std::string_view name_of(dnnl_data_type_t dtype) {
  HR_CHECK(dtype == dnnl_f32 || dtype == dnnl_bf16 || dtype == dnnl_s8);
  if (dtype == dnnl_s8) return "s8";
  return dtype == dnnl_f32 ? "f32" : "bf16";
}

dnnl::memory::data_type data_type_of(DType dtype) {
  HR_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kI8);
  if (dtype == DType::kI8) return dnnl::memory::data_type::s8;
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

/// oneDNN ends the process where it gets no memory for code that it generates.
void require_room_for_code() { require_room(std::size_t{16} << 20, "generating the code of a kernel"); }

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc describe(DType dtype, const Shape& shape, const Shape& strides) {
  const auto copy = [](const Shape& s) { return dnnl::memory::dims(s.dims().begin(), s.dims().end()); };
  return {copy(shape), data_type_of(dtype), copy(strides)};
}

dnnl::memory::desc describe(const Operand& operand) {
  return describe(operand.type.dtype, operand.type.shape, operand.strides);
}

dnnl::memory::desc describe_any(DType dtype, const Shape& shape) {
  return {dnnl::memory::dims(shape.dims().begin(), shape.dims().end()), data_type_of(dtype),
          dnnl::memory::format_tag::any};
}

std::string layout_name(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  // No properties other than those named below.
  HR_CHECK(d.format_kind == dnnl_blocked && d.offset0 == 0 && (d.extra.flags & ~kNamedExtras) == 0);
  const auto list = [](const dnnl_dim_t* first, int count) { return fmt::join(first, first + count, "x"); };
  std::string blocks;
  for (int i = 0; i < blocking.inner_nblks; ++i)
    blocks += fmt::format("{}{}", blocking.inner_blks[i], static_cast<char>('a' + blocking.inner_idxs[i]));
  std::string name =
      fmt::format("onednn:{}:{}:padded {}:strides {}:blocks {}", name_of(d.data_type), list(d.dims, d.ndims),
                  list(d.padded_dims, d.ndims), list(blocking.strides, d.ndims), blocks);
  if (d.extra.flags != 0) name += fmt::format(":sums {} along {}", d.extra.flags, d.extra.compensation_mask);
  return name;
}

bool is_plain(const dnnl::memory::desc& desc) { return desc.data.format_desc.blocking.inner_nblks == 0; }

void repack(const dnnl::memory::desc& dense, const void* from, const dnnl::memory::desc& wanted, void* to) {
  require_room_for_code();
  checked("packing a weight", [&] {
    // oneDNN takes all addresses as writable; a reorder only reads its source.
    dnnl::memory source(dense, cpu_engine(), const_cast<void*>(from));
    dnnl::memory target(wanted, cpu_engine(), to);
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
  });
}

void pack_weight(KernelPlan& plan, int weight, const dnnl::memory::desc& dense, const dnnl::memory::desc& wanted) {
  if (wanted == dense) return;
  // Two ops may want one weight in the same blocks and read it differently, as a convolution and its gradient do.
  plan.packed = {{weight, fmt::format("{} of {}", layout_name(wanted), layout_name(dense)), wanted.get_size()}};
  plan.pack = [=](Stream& /*stream*/, DevicePointer from, DevicePointer to) {
    repack(dense, from.address(), wanted, to.address());
  };
}

dnnl::primitive_attr attributes_with_user_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void append_activation(dnnl::post_ops& end, Activation activation) {
  if (activation == Activation::kGeluTanh) end.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
  if (activation == Activation::kGeluErf) end.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_erf, 0.0F, 0.0F);
  if (activation == Activation::kSilu) end.append_eltwise(1.0F, dnnl::algorithm::eltwise_swish, 1.0F, 0.0F);
}

TeamSize::TeamSize(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}

TeamSize::~TeamSize() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

Support check_sizes(const OpSpec& spec) {
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const TensorType& operand : *operands) {
      const Shape& shape = operand.shape;
      const std::int64_t rows = shape.rank() == 0 ? 1 : shape.numel() / shape[-1];
      if (rows > std::numeric_limits<std::int32_t>::max())
        return Rejection{fmt::format("oneDNN takes no more than {} rows, and {} has {}",
                                     std::numeric_limits<std::int32_t>::max(), shape, rows)};
    }
  return std::nullopt;
}

Support check_dtype(DType dtype, const Target& target) {
  if (dtype == DType::kF32) return std::nullopt;
  if (dtype != DType::kBF16) return Rejection{fmt::format("takes f32 or bf16, not {}", dtype)};
  if (target.cpu_isa < CpuIsa::kAvx512)
    return Rejection{fmt::format("bf16 needs AVX-512 in oneDNN; this CPU has {}", name_of(target.cpu_isa))};
  return std::nullopt;
}

namespace {

/// oneDNN takes all addresses as writable, inputs too.
void* address_of(const Call::Operands& operands, int argument) {
  if (argument == DNNL_ARG_SRC) return const_cast<void*>(operands.src);
  if (argument == DNNL_ARG_WEIGHTS) return const_cast<void*>(operands.weights);
  if (argument == DNNL_ARG_BIAS) return const_cast<void*>(operands.bias);
  return argument == DNNL_ARG_DST ? operands.dst : operands.scratch;
}

}  // namespace

Call::Call(const dnnl::primitive_desc_base& description, int threads)
    : primitive_((require_room_for_code(), description.get())), stream_(cpu_engine()), threads_(threads) {
  for (const int argument : {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD}) {
    const dnnl::memory::desc layout = description.query_md(dnnl::query::exec_arg_md, argument);
    if (layout.is_zero()) continue;             // no such argument
    void* const no_address = DNNL_MEMORY_NONE;  // given for each run
    memories_.emplace_back(layout, cpu_engine(), no_address);
    arguments_.push_back({argument, memories_.back().get()});
  }
}

void Call::run(const Operands& operands) const {
  const TeamSize team(threads_);
  const std::lock_guard lock(mutex_);
  if (!has_run_) require_room_for_code();  // the first run generates some, too
  has_run_ = true;
  for (const dnnl_exec_arg_t& argument : arguments_) {
    void* const address = address_of(operands, argument.arg);
    HR_CHECK(address != nullptr);
    dnnl_memory_set_data_handle(argument.memory, address);
  }
  // The C interface: the C++ one builds a vector of arguments for every run.
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) fail("oneDNN failed to run a primitive (status {})", static_cast<int>(status));
}

Call::Operands operands_of(const LaunchArguments& arguments) {
  return {.src = arguments.input(0),
          .weights = arguments.optional_input(1),
          .bias = arguments.optional_input(2),
          .dst = arguments.output(0),
          .scratch = arguments.scratch_memory()};
}

KernelPlan plan_call(const dnnl::primitive_desc_base& description, int threads) {
  const auto call = std::make_shared<const Call>(description, threads);
  return {.launch = [=](const LaunchArguments& arguments) { call->run(operands_of(arguments)); },
          .scratch_bytes = description.scratchpad_desc().get_size(),
          .implementation = description.impl_info_str()};
}

}  // namespace headroom::onednn
