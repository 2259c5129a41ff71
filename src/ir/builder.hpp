#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// Appends nodes to a graph, with one call per op, under a module path and in a region. Models are written with it.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  [[nodiscard]] Graph& graph() noexcept { return graph_; }
  [[nodiscard]] const Shape& shape(ValueId x) const { return graph_.type(x).shape; }
  [[nodiscard]] DType dtype(ValueId x) const { return graph_.type(x).dtype; }

  /// During its lifetime, nodes get `name` appended to their path and params to their name.
  class [[nodiscard]] Scope {
   public:
    Scope(Builder& builder, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::size_t length_;
  };
  Scope scope(std::string_view name) { return Scope(*this, name); }
  /// The same for one of the consecutive blocks of a model (Graph::blocks()).
  Scope block(std::string_view name);
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void set_path(std::string path) { path_ = std::move(path); }
  [[nodiscard]] RegionId region() const noexcept { return region_; }
  void set_region(RegionId region) { region_ = region; }

  /// During its lifetime, nodes go into a loop of trip_count iterations.
  class [[nodiscard]] Loop {
   public:
    Loop(Builder& builder, std::int64_t trip_count, std::string counter_name);
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;
    [[nodiscard]] ValueId counter() const noexcept { return counter_; }
    /// The value that `value` has at the end of the last iteration, to be read after the loop.
    [[nodiscard]] ValueId yield(ValueId value) const { return builder_.graph_.add_region_result(region_, value); }

   private:
    Builder& builder_;
    RegionId outer_;
    RegionId region_;
    ValueId counter_;
  };
  Loop loop(std::int64_t trip_count, std::string counter_name) {
    return Loop(*this, trip_count, std::move(counter_name));
  }

  /// Builds the nodes of a branch and returns the values that the branch yields.
  using Branch = std::function<std::vector<ValueId>()>;
  /// An `if` on `predicate`, a bool scalar: runs the nodes that `then` builds if it is true, else those that
  /// `otherwise` builds. Returns one value for each that the branches yield, taken from the branch that ran.
  std::vector<ValueId> select(ValueId predicate, const Branch& then, const Branch& otherwise);
  /// The same without an else: if the branch does not run, the results are the values `instead`.
  std::vector<ValueId> run_if(ValueId predicate, const Branch& then, const std::vector<ValueId>& instead = {});

  /// At the end of the current region's run, or of each of its iterations, the state `state` takes the value `next`.
  void set_next(ValueId state, ValueId next) { graph_.set_next(state, next, region_); }
  /// The value as it is now: for a state that a closed region updates, the result of that region.
  [[nodiscard]] ValueId read(ValueId value) { return graph_.read_after(value, region_); }

  /// The param `name` below the current path, from the checkpoint of that name if checkpoints are named. It is
  /// declared on first use; later uses must ask for the same type.
  ValueId param(std::string_view name, TensorType type, std::string_view checkpoint = {});

  // add(a, b), add_scalar(x, value), relu(x) and so on.
#define HR_UNARY(enumerator, name, ...) \
  ValueId name(ValueId x) { return emit(Op::enumerator, {x})[0]; }
#define HR_SCALAR(enumerator, name, ...) \
  ValueId name(ValueId x, double value) { return emit(Op::enumerator, {x}, {{attr::kValue, value}})[0]; }
#define HR_BINARY(enumerator, name, ...) \
  ValueId name(ValueId a, ValueId b) { return emit(Op::enumerator, {a, b})[0]; }
#define HR_REAL_BINARY HR_BINARY
#define HR_COMPARISON HR_BINARY
#define HR_RANGE(enumerator, name, ...)                                            \
  ValueId name(ValueId x, double low, double high) {                               \
    return emit(Op::enumerator, {x}, {{attr::kLow, low}, {attr::kHigh, high}})[0]; \
  }
#define HR_TERNARY(...)
#include "ir/elementwise.def"
  /// `approximate`: "tanh" for gelu_tanh, "none" for gelu_erf.
  ValueId gelu(ValueId x, std::string_view approximate = "tanh");
  /// Returns x itself if it has that dtype already.
  ValueId cast(ValueId x, DType dtype);

  struct Linear {
    ValueId bias = kNoValue;  ///< [n]
    Activation activation = Activation::kNone;
  };
  /// x[..., k], weight[n, k] -> [..., n]
  ValueId linear(ValueId x, ValueId weight, const Linear& with);
  ValueId linear(ValueId x, ValueId weight) { return linear(x, weight, {}); }
  /// x[..., k] -> q[..., k] in `dtype` (i8 or f8e4m3) and f32 scale[...], one per row
  std::pair<ValueId, ValueId> quantize(ValueId x, DType dtype = DType::kI8);
  /// q[n, k] times the scale of each row: the dequantized matrix, [n, k] in f32.
  ValueId dequantize_rows(ValueId q, ValueId scale);
  ValueId matmul(ValueId a, ValueId b, bool transpose_b = false);
  ValueId softmax(ValueId x);
  struct Attention {
    double scale = 1.0;
    ValueId bias = kNoValue;  ///< [b or 1, h or 1, s or 1, t]: a float one is added to the scores; a bool one masks the
                              ///< keys that a query may attend to (true: visible)
    bool causal = false;
    std::int64_t diagonal = 0;  ///< if causal: query i attends to keys 0..i + diagonal
  };
  /// softmax(scale * q k^T + bias) v: q[b, h, s, d], k[b, g, t, d], v[b, g, t, e] -> [b, h, s, e]
  ValueId attention(ValueId q, ValueId k, ValueId v, const Attention& with);
  /// The same, and log(sum(exp(scores))): f32 [b, h, s]
  std::pair<ValueId, ValueId> attention_and_logsumexp(ValueId q, ValueId k, ValueId v, const Attention& with);
  /// Results of attention over parts of the keys, which `axis` counts, x[..., e] and logsumexp[...] -> over all keys
  ValueId merge_attention(ValueId x, ValueId logsumexp, int axis = 0);
  /// The weight[d] and bias[d] of a norm over d channels.
  struct Affine {
    ValueId weight = kNoValue;
    ValueId bias = kNoValue;  ///< only with a weight
  };
  /// x[..., d]
  ValueId layer_norm(ValueId x, double eps, const Affine& with);
  ValueId layer_norm(ValueId x, double eps) { return layer_norm(x, eps, {}); }
  ValueId rms_norm(ValueId x, ValueId weight, double eps);
  /// x[b, c, ...], with weight[c] and bias[c]
  ValueId group_norm(ValueId x, std::int64_t groups, double eps, const Affine& with);
  ValueId group_norm(ValueId x, std::int64_t groups, double eps) { return group_norm(x, groups, eps, {}); }

  /// [shape...] of `dtype` with these elements in row-major order, or with one value for all elements.
  ValueId constant(std::vector<double> values, Shape shape, DType dtype = DType::kF32);
  /// key[b], offset[] -> f32 [b, shape...]
  ValueId random(ValueId key, ValueId offset, Shape shape, Distribution distribution = Distribution::kNormal);

  /// ids[s, axes] -> cos[s, d/2], sin[s, d/2]
  std::pair<ValueId, ValueId> rope_table(ValueId ids, std::vector<std::int64_t> axes, double theta = 10000.0);
  ValueId rope(ValueId x, ValueId cos, ValueId sin);
  ValueId timestep_embedding(ValueId t, std::int64_t dim, double scale);

  /// One extent may be -1 and is then inferred.
  ValueId reshape(ValueId x, std::vector<std::int64_t> shape);
  ValueId transpose(ValueId x, std::vector<std::int64_t> perm);
  ValueId concat(std::vector<ValueId> parts, int axis);
  ValueId slice(ValueId x, int axis, std::int64_t start, std::int64_t size);
  /// x cut into `parts` equal slices along `axis`.
  std::vector<ValueId> chunk(ValueId x, int parts, int axis);
  ValueId row(ValueId table, ValueId index);
  ValueId gather(ValueId table, ValueId ids);
  ValueId scatter_add(ValueId x, ValueId ids, ValueId updates);
  ValueId pad(ValueId x, std::vector<std::int64_t> before, std::vector<std::int64_t> after, double value = 0);
  ValueId broadcast(ValueId x, Shape shape);
  /// condition ? a : b, element by element
  ValueId where(ValueId condition, ValueId a, ValueId b);

  /// Stride, padding, dilation and groups of a convolution.
  struct Convolution {
    std::array<std::int64_t, 2> stride{1, 1};
    std::array<std::int64_t, 4> padding{};  ///< top, left, bottom, right
    std::array<std::int64_t, 2> dilation{1, 1};
    std::int64_t groups = 1;
  };
  /// The same stride on both axes and the same padding on every side.
  [[nodiscard]] static Convolution evenly(std::int64_t stride, std::int64_t padding) {
    return {.stride = {stride, stride}, .padding = {padding, padding, padding, padding}};
  }
  /// x[b, c, h, w], weight[o, c/groups, kh, kw], bias[o] (or kNoValue)
  ValueId conv2d(ValueId x, ValueId weight, ValueId bias, const Convolution& how);
  /// x[b, c, h, w], weight[c, o/groups, kh, kw], bias[o] (or kNoValue)
  ValueId conv_transpose2d(ValueId x, ValueId weight, ValueId bias, const Convolution& how,
                           std::array<std::int64_t, 2> output_padding = {});
  ValueId resize2d(ValueId x, std::array<std::int64_t, 2> size, ResizeMode mode = ResizeMode::kNearest);
  ValueId max_pool2d(ValueId x, std::int64_t window);
  ValueId avg_pool2d(ValueId x, std::int64_t window);

  ValueId sum(ValueId x, std::vector<std::int64_t> axes);
  ValueId amax(ValueId x, std::vector<std::int64_t> axes);
  ValueId amin(ValueId x, std::vector<std::int64_t> axes);
  ValueId mean(ValueId x, std::vector<std::int64_t> axes);
  ValueId argmax(ValueId x, int axis);
  /// The k largest elements of each row, and their indices.
  std::pair<ValueId, ValueId> topk(ValueId x, std::int64_t k);

  /// Applies `body` to these inputs and returns its outputs.
  std::vector<ValueId> fused(std::vector<ValueId> inputs, const Graph& body);

  /// Any op, by enum. Returns all results.
  std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs, NamedAttributes attributes = {});

 private:
  std::vector<ValueId> build_branch(RegionId region, const Branch& branch);
  std::vector<ValueId> add_results(RegionId region, const std::vector<ValueId>& yields,
                                   const std::vector<ValueId>& others);
  /// Emits the op on `inputs` and on those operands of `optional` that are not kNoValue.
  std::vector<ValueId> emit_with(Op op, std::vector<ValueId> inputs, std::initializer_list<ValueId> optional,
                                 NamedAttributes attributes);
  ValueId reduce(Op op, ValueId x, std::vector<std::int64_t> axes);

  Graph& graph_;
  std::string path_;
  RegionId region_ = kTopRegion;
};

}  // namespace headroom
