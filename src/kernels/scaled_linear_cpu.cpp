// scaled_linear: y[..., j] = activation((sum_i xq[..., i] * wq[j, i]) * x_scale[...] * w_scale[j] + bias[j])
//
// Shapes     xq[..., k], x_scale[...], wq[n, k], w_scale[n], bias[n] or none -> y[..., n]
// Dtypes     xq, wq i8; scales and bias f32; y f32 or bf16. Products add up in i32 without rounding.
// Layout     inputs dense; y innermost stride 1. Weights of the checkpoint are packed once into oneDNN's blocks, with
//            the sums over columns that VNNI needs to multiply signed bytes; others stay dense.
// Alignment  that of the dtype.
// Bytes      m*k + n*k + 4*(m + 2*n) + m*n * size
// FLOPs      2*m*n*k + 3*m*n + the activation's; the products on the int8 unit
//
// Each thread takes pieces of at most 128 rows: oneDNN, on one thread, writes the product as f32 into a piece that
// stays in its cache, and our row kernel scales it in place (dense f32) or from there into y. (Where the rows of a
// result have gaps, oneDNN 2.6 leaves its int8 kernels for a slow one.)
//
// Tried, on two cores with VNNI, m = 5120, n = 576, k = 192, where fp32 takes 2.93 ms: the bare product 0.92 ms; all of
// it, then the scaling, 1.24 ms; by pieces of 64 to 256 rows 1.06 to 1.12 ms. oneDNN 2.6 applies a scale for each
// column at no cost, but one for each row (a binary post-op with [m, 1]) drops to its reference, hundreds of times
// slower. Unsigned activations with a zero point save 12% of the product (no detour for the sign), and would need
// another pass over q on every CPU that has AMX, where signed bytes are native.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "ir/activation.hpp"
#include "kernels/activation_rows.hpp"
#include "kernels/cpu_kernels.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/parallel.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

using onednn::Call;

constexpr std::int64_t kMostRows = 128;  // of a piece
constexpr std::size_t kCacheLine = 64;

std::size_t round_up(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

struct Problem {
  std::int64_t n, k;
  bool pack;
  RowFinish form;
};

/// y as groups of rows that lie evenly: where each group begins is a matter of the outer axes.
struct RowGroups {
  std::int64_t rows = 1;  ///< of a group
  std::int64_t stride = 0;
  struct Axis {
    std::int64_t extent;
    std::int64_t stride;
  };
  std::vector<Axis> outer;  ///< innermost first
  std::int64_t count = 1;   ///< of groups

  [[nodiscard]] std::int64_t offset(std::int64_t group) const {
    std::int64_t offset = 0;
    for (const Axis& axis : outer) {
      offset += group % axis.extent * axis.stride;
      group /= axis.extent;
    }
    return offset;
  }
};

RowGroups group_rows(const Operand& y) {
  RowGroups groups{.rows = 1, .stride = y.type.shape[-1], .outer = {}, .count = 1};
  for (int axis = y.type.shape.rank() - 2; axis >= 0; --axis) {
    const std::int64_t extent = y.type.shape[axis], stride = y.strides[axis];
    if (extent == 1) continue;
    if (groups.outer.empty() && (groups.rows == 1 || stride == groups.rows * groups.stride)) {
      if (groups.rows == 1) groups.stride = stride;
      groups.rows *= extent;
    } else {
      groups.outer.push_back({extent, stride});
      groups.count *= extent;
    }
  }
  return groups;
}

Problem problem_of(const OpSpec& spec) {
  return {.n = spec.inputs[2].shape[0],
          .k = spec.inputs[2].shape[1],
          .pack = spec.is_weight.size() > 2 && spec.is_weight[2],
          .form = {.activation = activation_of(spec.attributes),
                   .bias = spec.inputs.size() > 4 ? std::optional(DType::kF32) : std::nullopt,
                   .y_dtype = spec.outputs[0].dtype,
                   .columns = spec.inputs[2].shape[0]}};
}

/// Rows of a piece: few enough to stay in cache, and enough pieces for every thread.
std::int64_t piece_rows(const RowGroups& groups, int threads) {
  const std::int64_t for_each_thread = (groups.rows * groups.count + threads - 1) / threads;
  return std::clamp<std::int64_t>(for_each_thread, 1, std::min(kMostRows, groups.rows));
}

/// The dense weight[n, k] read as the [k, n] that the product wants.
dnnl::memory::desc dense_weight(const Problem& problem) {
  return onednn::describe(DType::kI8, Shape{problem.k, problem.n}, Shape{1, problem.k});
}

/// `rows` rows of xq times the weight, as dense f32.
dnnl::matmul::primitive_desc make_product(const Problem& problem, std::int64_t rows, const dnnl::memory::desc& weight) {
  const onednn::TeamSize alone(1);
  const auto x = onednn::describe(DType::kI8, Shape{rows, problem.k}, Shape{problem.k, 1});
  const auto y = onednn::describe(DType::kF32, Shape{rows, problem.n}, Shape{problem.n, 1});
  return {dnnl::matmul::desc(x, weight, y), onednn::attributes_with_user_scratch(), onednn::cpu_engine()};
}

/// With packing, the layout that oneDNN likes best, unless that is a plain one: then the dense weight does as well.
dnnl::matmul::primitive_desc choose_product(const Problem& problem, std::int64_t rows) {
  if (problem.pack) {
    auto packed = make_product(problem, rows, onednn::describe_any(DType::kI8, Shape{problem.k, problem.n}));
    if (!onednn::is_plain(packed.weights_desc())) return packed;
  }
  return make_product(problem, rows, dense_weight(problem));
}

/// The product of a whole piece and, where the rows of a group do not divide into those, of its last one.
std::vector<dnnl::matmul::primitive_desc> choose_products(const Problem& problem, const RowGroups& groups,
                                                          std::int64_t rows) {
  std::vector<dnnl::matmul::primitive_desc> products{choose_product(problem, rows)};
  if (const std::int64_t rest = groups.rows % rows; rest != 0)
    products.push_back(make_product(problem, rest, products[0].weights_desc()));
  return products;
}

class PreparedScaledLinear final : public PreparedKernel {
 public:
  PreparedScaledLinear(const Problem& problem, const Operand& y, int threads)
      : problem_(problem),
        groups_(group_rows(y)),
        threads_(threads),
        piece_rows_(piece_rows(groups_, threads)),
        pieces_(groups_.count * ((groups_.rows + piece_rows_ - 1) / piece_rows_)),
        in_place_(problem.form.y_dtype == DType::kF32 && groups_.stride == problem.n) {
    problem_.form.y_stride = groups_.stride;
    const auto products = choose_products(problem_, groups_, piece_rows_);
    weight_ = products[0].weights_desc();
    implementation_ = products[0].impl_info_str();
    for (const auto& product : products) add_product(product);
    if (weight_ != dense_weight(problem_)) packed_.push_back({2, onednn::layout_name(weight_), weight_.get_size()});
    if (!in_place_) piece_bytes_ = round_up(static_cast<std::size_t>(piece_rows_ * problem_.n) * sizeof(float));
  }

  [[nodiscard]] std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(threads_) * (library_bytes_ + piece_bytes_);
  }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
  [[nodiscard]] std::string implementation() const override { return implementation_; }

  void pack(Stream& /*stream*/, std::size_t index, const void* dense, void* packed) const override {
    HR_CHECK_LT(index, packed_.size());
    onednn::checked("onednn.scaled_linear",
                    [&] { onednn::convert_layout(dense_weight(problem_), dense, weight_, packed); });
  }

  void launch(const LaunchArguments& arguments) const override {
    const std::int64_t elements =
        piece_rows_ * problem_.n * problem_.k / 16;  // of work as light as an elementwise op's
    parallel_for(threads_, pieces_, grain_of(elements), [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t piece = begin; piece < end; ++piece) run_piece(arguments, piece, thread);
    });
  }

 private:
  /// One call a thread: a call holds the addresses it runs on.
  void add_product(const dnnl::matmul::primitive_desc& product) {
    const dnnl::matmul primitive(product);
    const dnnl::memory::desc scratch = product.scratchpad_desc();
    library_bytes_ = std::max(library_bytes_, round_up(scratch.get_size()));
    auto& calls = calls_.emplace_back();
    for (int thread = 0; thread < threads_; ++thread)
      calls.push_back(std::make_unique<Call>(
          primitive, 1,
          std::initializer_list<std::pair<int, dnnl::memory::desc>>{{DNNL_ARG_SRC, product.src_desc()},
                                                                    {DNNL_ARG_WEIGHTS, product.weights_desc()},
                                                                    {DNNL_ARG_DST, product.dst_desc()},
                                                                    {DNNL_ARG_SCRATCHPAD, scratch}}));
  }

  void run_piece(const LaunchArguments& arguments, std::int64_t piece, int thread) const {
    const std::int64_t in_group = pieces_ / groups_.count;
    const std::int64_t group = piece / in_group;
    const std::int64_t first = piece % in_group * piece_rows_;
    const std::int64_t rows = std::min(piece_rows_, groups_.rows - first);
    const std::int64_t row = group * groups_.rows + first;  // of x
    const std::int64_t y_offset = groups_.offset(group) + first * groups_.stride;
    std::byte* const y = static_cast<std::byte*>(arguments.outputs[0]) +
                         y_offset * static_cast<std::int64_t>(size_of(problem_.form.y_dtype));
    std::byte* const scratch =
        static_cast<std::byte*>(arguments.scratch) + static_cast<std::size_t>(thread) * (library_bytes_ + piece_bytes_);
    float* const product = reinterpret_cast<float*>(in_place_ ? y : scratch + library_bytes_);

    calls_[rows == piece_rows_ ? 0 : 1][static_cast<std::size_t>(thread)]->run(
        {{DNNL_ARG_SRC, static_cast<const std::int8_t*>(arguments.inputs[0]) + row * problem_.k},
         {DNNL_ARG_WEIGHTS, arguments.inputs[2]},
         {DNNL_ARG_DST, product},
         {DNNL_ARG_SCRATCHPAD, scratch}});
    const ProductScales scales{static_cast<const float*>(arguments.inputs[1]) + row,
                               static_cast<const float*>(arguments.inputs[3])};
    finish_rows(problem_.form, rows, product, problem_.form.bias ? arguments.inputs[4] : nullptr, y, scales);
  }

  Problem problem_;
  RowGroups groups_;
  int threads_;
  std::int64_t piece_rows_;
  std::int64_t pieces_;
  bool in_place_;  // the product is written where its scaled form goes
  dnnl::memory::desc weight_;
  std::vector<PackedWeight> packed_;
  std::string implementation_;
  std::size_t library_bytes_ = 0;                          // of oneDNN's scratch, for each thread
  std::size_t piece_bytes_ = 0;                            // of a product that is not written in place, for each thread
  std::vector<std::vector<std::unique_ptr<Call>>> calls_;  // of whole pieces and of the last in a group; by thread
};

class OnednnScaledLinear final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "onednn.scaled_linear"; }
  [[nodiscard]] Op op() const override { return Op::kScaledLinear; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(op(), DeviceKind::kCpu, spec, target)) return rejection;
    if (target.cpu_isa < CpuIsa::kAvx512Vnni)
      return Rejection{fmt::format("int8 products need AVX-512 VNNI or AMX; this CPU has {}", name_of(target.cpu_isa))};
    if (Support rejection = check_scaled_dtypes(spec)) return rejection;
    if (Support rejection = onednn::check_sizes(spec)) return rejection;
    const RowGroups groups = group_rows(dense_operand(spec.outputs[0]));
    const auto products = onednn::checked(
        name(), [&] { return choose_products(problem_of(spec), groups, piece_rows(groups, target.threads)); });
    for (const auto& product : products)
      if (const std::string implementation = product.impl_info_str(); !implementation.starts_with("brg:"))
        return Rejection{fmt::format("oneDNN has only {} for this product", implementation)};
    return std::nullopt;
  }

  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return StrideRule::kInnerDense;
  }
  [[nodiscard]] DType compute_type(const OpSpec& /*spec*/) const override { return DType::kI8; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> /*inputs*/,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    return onednn::checked(
        name(), [&] { return std::make_unique<PreparedScaledLinear>(problem_of(spec), outputs[0], target.threads); });
  }
};

}  // namespace

const Kernel& onednn_scaled_linear() {
  static const OnednnScaledLinear kernel;
  return kernel;
}

}  // namespace headroom
