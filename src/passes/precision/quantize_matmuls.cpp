// int8, fp8: linear(x, w, b)  ->  scaled_linear(quantize(x), quantize(w), b), all in i8 or f8e4m3
//
// Matmuls of tokens with weights run in an 8-bit dtype. Activations are scaled per row (a token), at run time;
// weights are scaled per row of w (an output channel), once, when they are folded. All matmuls of one x share its
// quantized form. Weights stored in that dtype already are used as they are: with a scale for each row, as `headroom
// convert` writes them, with one for all, as ComfyUI does, and in FP8 without one. FP8 weights are in f8e4m3 or f8e5m2.
//
// Some matmuls are left unchanged, each with its reason in the outcome's notes:
//  - the first matmuls after the inputs and the last before the outputs, whose errors are not averaged out;
//  - conditioning, whose result scales or shifts every token of a sample alike;
//  - matmuls too small to pay for quantizing x, or of a shape that the unit does not support;
//  - matmuls of two activations (attention), which are not linears.
//
// FP8 tensor cores accumulate in fewer bits than f32's (fast sums, the default) or in f32 (exact sums), which costs a
// step of FLUX.1 7% (docs/gpu_facts.md). fp8=exact selects exact sums. fp8=SUMS:modules=REGEX selects SUMS in modules
// whose path matches and the other kind elsewhere. Matmuls that lose much by fast sums are named in the notes.
//
// fp8=SUMS:activations=file scales the activations of a matmul by the param `x.input_scale` of its weight `x.weight`,
// one number that the file's author calibrated: xq = cast(x * (1 / scale)), which saturates. The maximum is taken of
// weights that are joined.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/switch_argument.hpp"
#include "base/text/name_filter.hpp"
#include "ir/op_definition.hpp"
#include "ir/param_name.hpp"
#include "passes/pass.hpp"
#include "passes/precision/fast_sums.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// An 8-bit dtype for matmuls of tokens with weights, and the conditions under which it pays.
struct QuantizedForm {
  DType dtype;
  bool bias_is_f32;  ///< else of the result's dtype
  bool takes_f16;    ///< quantizes f16 of a checkpoint; otherwise the dtype that it is cast to
  std::int64_t least_rows, least_columns;
  std::int64_t least_sum;     ///< input channels
  std::int64_t few_rows = 0;  ///< fewer pay only if the weight has least_weight elements
  std::int64_t least_weight = 0;
  std::int64_t channel_multiple = 1;  ///< of which the numbers of input and output channels must be multiples
};

// Quantizing costs about 0.2 ns per element of x, and int8 saves about 1.7 ps per multiplication (two cores with
// VNNI). 32 columns are not enough alone, but pay if the next matmul shares x. Fewer rows or a shorter sum leave the
// unit's blocks partly empty. CPUs compute in f32 and bf16, and only move f16.
constexpr QuantizedForm kInt8{.dtype = DType::kI8,
                              .bias_is_f32 = true,
                              .takes_f16 = false,
                              .least_rows = 16,
                              .least_columns = 32,
                              .least_sum = 32};

// Scales are dynamic, one per row, without calibration, so that each row uses the whole range of E4M3, 448. Tensor
// cores read 16 bytes of a row at once, 16 channels; fewer than 16 rows leave most of a tile empty. With fewer rows
// than a tile's 128 the matmul is bound by reading the weight, of which FP8 saves half. A launch that quantizes x, if
// no norm does it, takes as long as reading 8 MiB (2 us on an H200). Example: CLIP's text encoder, 77 rows of 768
// channels, takes 0.49 ms in bf16 and 0.61 in FP8.
constexpr QuantizedForm kFp8{.dtype = DType::kF8E4M3,
                             .bias_is_f32 = false,
                             .takes_f16 = true,
                             .least_rows = 16,
                             .least_columns = 32,
                             .least_sum = 32,
                             .few_rows = 128,
                             .least_weight = std::int64_t{8} << 20,
                             .channel_multiple = 16};

/// The dtypes of matmuls that can be quantized.
bool is_computed_in(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

/// Accumulation of FP8 matmuls and scales of activations: the argument of the switch fp8.
class Fp8Argument {
 public:
  /// "" for the default, "exact" or "fast", either followed by ":modules=REGEX" and ":activations=file" or "=row".
  /// Throws a usage Error for anything else.
  explicit Fp8Argument(std::string_view text) {
    const SwitchArgument argument("fp8", text);
    if (argument.head() != "" && argument.head() != "exact" && argument.head() != "fast")
      argument.refuse("expected exact or fast, and perhaps :modules=REGEX or :activations=file");
    is_fast_ = argument.head() != "exact";
    argument.read_keys({{"modules", [&](std::string_view regex) { modules_.emplace(std::string(regex)); }},
                        {"activations", [&](std::string_view scales) {
                           if (scales != "file" && scales != "row")
                             argument.refuse("activations is '{}', expected file or row", scales);
                           has_scales_of_file_ = scales == "file";
                         }}});
  }

  [[nodiscard]] bool are_fast(const std::string& path) {
    const bool is_named = !modules_ || modules_->takes(path);
    any_named_ = any_named_ || is_named;
    return is_named == is_fast_;
  }
  /// Whether modules were requested, and none of the modules passed to is_fast() matched.
  [[nodiscard]] bool match_nothing() const { return modules_ && !any_named_; }
  /// Whether activations are scaled by what the file says, if it does.
  [[nodiscard]] bool has_scales_of_file() const { return has_scales_of_file_; }

 private:
  bool is_fast_ = true;
  bool has_scales_of_file_ = false;
  bool any_named_ = false;
  std::optional<NameFilter> modules_;
};

/// The positions of matmuls in a graph, relative to inputs, outputs and conditioning.
class Places {
 public:
  Places(const Graph& graph, const QuantizedForm& form)
      : graph_(graph),
        form_(form),
        is_weight_(find_weight_values(graph)),
        follows_contraction_(graph.value_count()),
        leads_to_contraction_(graph.value_count()),
        is_conditioning_(graph.value_count(), true) {
    for (const ValueId read : reads_outside_nodes(graph)) is_conditioning_[index_of(read)] = false;
    for (std::size_t i = graph.nodes().size(); i-- > 0;) look_ahead(graph.nodes()[i]);
    for (const Node& node : graph.nodes()) look_back(node);
  }

  /// The reason to leave the matmul unchanged; empty if there is none.
  [[nodiscard]] std::string reason_to_keep(const Node& linear) const {
    const TensorType& x = graph_.type(linear.input(Role::kX));
    const Shape& weight = graph_.type(linear.input(Role::kWeight)).shape;  // [n, k]
    if (is_conditioning_[index_of(linear.results[0])])
      return "conditioning: its result scales or shifts every token of a sample";
    if (!follows_contraction_[index_of(linear.input(Role::kX))]) return "first layer: it reads the model's inputs";
    if (!leads_to_contraction_[index_of(linear.results[0])]) return "last layer: it makes the model's output";
    if (!is_computed_in(x.dtype)) return fmt::format("its input is {}", x.dtype);
    for (std::size_t i = 1; i < linear.inputs.size(); ++i)
      if (!is_weight_[index_of(linear.inputs[i])]) return "its weight is not made of parameters";
    const std::int64_t rows = x.shape.numel() / weight[1];
    if (rows < form_.least_rows || weight[0] < form_.least_columns || weight[1] < form_.least_sum)
      return fmt::format("too small to pay: {} rows, {} to {} channels", rows, weight[1], weight[0]);
    if (rows < form_.few_rows && weight.numel() < form_.least_weight)
      return fmt::format("too few rows for so small a weight: {}, {} to {} channels", rows, weight[1], weight[0]);
    if (weight[0] % form_.channel_multiple != 0 || weight[1] % form_.channel_multiple != 0)
      return fmt::format("{} to {} channels, which are no multiples of {}", weight[1], weight[0],
                         form_.channel_multiple);
    return {};
  }

  [[nodiscard]] bool is_running(const Node& node) const { return !is_weight_[index_of(node.results[0])]; }

 private:
  void look_ahead(const Node& node) {
    bool leads = is_contraction(node.op) && is_running(node);
    for (const ValueId result : node.results) leads = leads || leads_to_contraction_[index_of(result)];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::size_t input = index_of(node.inputs[i]);
      leads_to_contraction_[input] = leads_to_contraction_[input] || leads;
      is_conditioning_[input] = is_conditioning_[input] && conditions(node, i);
    }
  }

  void look_back(const Node& node) {
    bool follows = is_contraction(node.op) && is_running(node);
    for (const ValueId input : node.inputs) follows = follows || follows_contraction_[index_of(input)];
    for (const ValueId result : node.results) follows_contraction_[index_of(result)] = follows;
  }

  /// Whether operand `index` only scales or shifts the data of the node, or is used to compute such an operand.
  [[nodiscard]] bool conditions(const Node& node, std::size_t index) const {
    const OpDefinition& known = definition_of(node.op);
    if (schema_of(node.op).operands.at(index).modulates) return true;
    const auto numel = [&](ValueId value) { return graph_.type(value).shape.numel(); };
    if (is_elementwise(node.op) && numel(node.inputs[index]) < numel(node.results[0])) return true;  // broadcast
    const bool passes_on = is_elementwise(node.op) || is_view(node.op) || known.kind == OpKind::kCopy;
    return (passes_on || is_matmul(node.op)) && is_conditioning_[index_of(node.results[0])];
  }

  const Graph& graph_;
  const QuantizedForm& form_;
  std::vector<bool> is_weight_;  // these by value
  std::vector<bool> follows_contraction_;
  std::vector<bool> leads_to_contraction_;
  std::vector<bool> is_conditioning_;
};

struct Quantized {
  ValueId elements;  ///< in the 8-bit dtype, [..., k]
  ValueId scale;     ///< f32 [...]
};

/// The node that makes a weight at the start of the schedule, where the pass weights-first has put it. Null for a
/// param, or if the node is still elsewhere.
const Node* producer_at_start(const Rewriter& r, ValueId weight) {
  return r.is_weight(weight) ? r.weight_producer(weight) : nullptr;
}

/// Whether weights in `stored` are operands of a matmul in `dtype`.
bool is_taken(DType stored, DType dtype) {
  return stored == dtype || (dtype == DType::kF8E4M3 && stored == DType::kF8E5M2);
}

/// Elements in `dtype`, or f8e5m2 in FP8, and row scales from the checkpoint: the operands of mul(cast(q),
/// reshape(scale)) or of mul(cast(q), scale[1]), cast(q) of FP8, whose scales are 1, or concatenations of such weights.
std::optional<Quantized> stored_form(Rewriter& r, ValueId weight, DType dtype, const std::string& path) {
  const Node* node = producer_at_start(r, weight);
  if (node == nullptr) return std::nullopt;
  if (node->op == Op::kCast && is_computed_in(r.type(node->inputs[0]).dtype))
    return stored_form(r, node->inputs[0], dtype, path);
  const auto is_matrix = [&](const Node& cast) {
    return cast.op == Op::kCast && is_taken(r.type(cast.inputs[0]).dtype, dtype) && r.shape(cast.inputs[0]).rank() == 2;
  };
  if (is_matrix(*node) && dtype == DType::kF8E4M3)
    return Quantized{
        node->inputs[0],
        r.emit(Op::kConstant, {},
               {{attr::kValues, std::vector<double>{1}}, {attr::kShape, Ints{r.shape(node->inputs[0])[0]}}}, path)};
  if (node->op == Op::kMul) {
    const Node* const cast = producer_at_start(r, node->input(Role::kA));
    if (cast == nullptr || !is_matrix(*cast)) return std::nullopt;
    const ValueId elements = cast->inputs[0], scale = node->input(Role::kB);
    const std::int64_t rows = r.shape(elements)[0];
    if (r.is_weight(scale) && r.type(scale) == TensorType{DType::kF32, Shape{1}})
      return Quantized{elements, r.emit(Op::kBroadcast, {scale}, {{attr::kShape, Ints{rows}}}, path)};
    const Node* const column = producer_at_start(r, scale);
    if (column == nullptr || column->op != Op::kReshape ||
        r.type(column->inputs[0]) != TensorType{DType::kF32, Shape{rows}})
      return std::nullopt;
    return Quantized{elements, column->inputs[0]};
  }
  if (node->op != Op::kConcat || node->attributes[attr::kAxis] != 0) return std::nullopt;
  std::vector<ValueId> elements, scales;
  for (const ValueId part : std::vector(node->inputs)) {
    const std::optional<Quantized> stored = stored_form(r, part, dtype, path);
    if (!stored || (!elements.empty() && r.type(stored->elements).dtype != r.type(elements[0]).dtype))
      return std::nullopt;
    elements.push_back(stored->elements);
    scales.push_back(stored->scale);
  }
  return Quantized{r.emit(Op::kConcat, std::move(elements), {{attr::kAxis, 0}}, path),
                   r.emit(Op::kConcat, std::move(scales), {{attr::kAxis, 0}}, path)};
}

/// The file's scale of the activations that elements from the checkpoint are multiplied with, f32 [1]. Nothing if it
/// has none. Of several matrices it is the largest, so that no activation saturates that did not in one of them.
std::optional<ValueId> stored_input_scale(Rewriter& r, ValueId elements, const std::string& path) {
  if (const Node* const node = r.weight_producer(elements); node != nullptr) {
    if (node->op != Op::kConcat) return std::nullopt;
    std::optional<ValueId> largest;
    for (const ValueId part : std::vector(node->inputs)) {
      const std::optional<ValueId> scale = stored_input_scale(r, part, path);
      if (!scale) return std::nullopt;
      if (!largest || *largest == *scale)
        largest = scale;
      else
        largest = r.emit(Op::kMax, {*largest, *scale}, {}, path);
    }
    return largest;
  }
  const ValueId scale = r.graph().find(ValueKind::kParam, input_scale_name(r.graph().value(elements).name));
  return scale == kNoValue ? std::nullopt : std::optional(scale);
}

/// The weight before it was cast between f32, bf16 and f16: as in the checkpoint, or as computed in f32.
ValueId before_casts(const Rewriter& r, ValueId weight, const QuantizedForm& form) {
  const Node* node = producer_at_start(r, weight);
  if (node == nullptr || node->op != Op::kCast) return weight;
  const DType from = r.type(node->inputs[0]).dtype;
  const bool is_taken = is_computed_in(from) && (form.takes_f16 || from != DType::kF16);
  return is_taken ? before_casts(r, node->inputs[0], form) : weight;
}

class Quantization {
 public:
  /// Decides about every matmul before the first is rewritten.
  Quantization(const Graph& graph, const QuantizedForm& form, std::string_view argument)
      : form_(form), argument_(argument) {
    const Places places(graph, form);
    const std::vector<int> producers = find_producers(graph);
    for (const Node& node : graph.nodes()) {
      if (node.op != Op::kLinear || !places.is_running(node)) continue;
      const std::optional<EpilogueForm> end = form_of(node.attributes[attr::kEpilogue]);
      if (!end || end->adds_operand) continue;  // fuse-epilogue runs later
      if (const std::string reason = places.reason_to_keep(node); reason.empty()) {
        chosen_.insert(node.results[0]);
        quantized_.insert(node.input(Role::kX));
        if (form.dtype == DType::kF8E4M3) choose_sums(graph, producers, node);
      } else {
        note(notes_, reason, node);
      }
    }
  }

  bool rewrite(Rewriter& r, const Node& node) {
    if (!chosen_.contains(node.results[0])) return false;
    const std::optional<Quantized> stored = stored_form(r, node.input(Role::kWeight), form_.dtype, node.path);
    const Quantized weight =
        stored ? *stored : quantize(r, before_casts(r, node.input(Role::kWeight), form_), node.path);
    const std::optional<ValueId> scale =
        stored && argument_.has_scales_of_file() ? stored_input_scale(r, stored->elements, node.path) : std::nullopt;
    const Quantized x =
        scale ? scaled_input(r, node.input(Role::kX), *scale, node) : quantized_input(r, node.input(Role::kX), node);
    std::vector<ValueId> inputs = {x.elements, x.scale, weight.elements, weight.scale};
    if (node.input(Role::kBias) != kNoValue) {
      const ValueId bias = before_casts(r, node.input(Role::kBias), form_);
      const DType wanted = form_.bias_is_f32 ? DType::kF32 : r.type(node.results[0]).dtype;
      const bool is_wanted = r.type(bias).dtype == wanted;
      inputs.push_back(is_wanted ? bias : r.emit(Op::kCast, {bias}, {{attr::kDType, wanted}}, node.path));
    }
    NamedAttributes attributes = {{attr::kEpilogue, node.attributes[attr::kEpilogue]},
                                  {attr::kDType, r.type(node.results[0]).dtype}};
    if (fast_.contains(node.results[0])) attributes.emplace_back(attr::kFastSums, true);
    r.replace(node.results[0], r.emit(Op::kScaledLinear, std::move(inputs), attributes, node.path));
    return true;
  }

  [[nodiscard]] std::vector<PassNote> take_notes() {
    if (!chosen_.empty() && argument_.match_nothing())
      notes_.push_back({.reason = "modules= matches the path of no product in FP8", .nodes = {}});
    if (!chosen_.empty() && argument_.has_scales_of_file() && scaled_.empty())
      notes_.push_back({.reason = "activations=file: no weight stored in FP8 has an input_scale", .nodes = {}});
    return std::move(notes_);
  }

 private:
  void choose_sums(const Graph& graph, const std::vector<int>& producers, const Node& linear) {
    if (!argument_.are_fast(linear.path)) return;
    fast_.insert(linear.results[0]);
    if (const std::string loss = loss_of_fast_sums(graph, producers, linear.input(Role::kX)); !loss.empty())
      note(notes_, loss, linear, NoteKind::kLossy);
  }

  [[nodiscard]] Quantized quantize(Rewriter& r, ValueId x, const std::string& path) const {
    const std::vector<ValueId> results = r.emit_all(Op::kQuantize, {x}, {{attr::kDType, form_.dtype}}, path);
    return {results[0], results[1]};
  }

  Quantized quantized_input(Rewriter& r, ValueId x, const Node& node) {
    const auto [shared, is_new] = inputs_.try_emplace({x, node.region}, Quantized{});
    if (is_new) {
      const Node* const slice = r.match(x, Op::kSlice);
      const bool is_part = slice != nullptr && quantized_.contains(slice->inputs[0]) && takes_rows_in_a_row(r, *slice);
      shared->second = is_part ? quantized_rows(r, *slice, node) : quantize(r, x, node.path);
    }
    return shared->second;
  }

  /// Rows of a value that is quantized as a whole for another matmul: a view.
  Quantized quantized_rows(Rewriter& r, const Node& slice, const Node& node) {
    const Quantized whole = quantized_input(r, slice.inputs[0], node);
    const auto rows_of = [&](ValueId of) {
      const Attributes& which = slice.attributes;
      return r.emit(Op::kSlice, {of},
                    {{attr::kAxis, which[attr::kAxis]},
                     {attr::kStart, which[attr::kStart]},
                     {attr::kExtent, which[attr::kExtent]}},
                    node.path);
    };
    return {rows_of(whole.elements), rows_of(whole.scale)};
  }

  /// Whether a slice takes contiguous rows.
  static bool takes_rows_in_a_row(const Rewriter& r, const Node& slice) {
    const auto axis = static_cast<std::size_t>(slice.attributes[attr::kAxis]);
    const std::span<const std::int64_t> extents = r.shape(slice.inputs[0]).dims();
    return axis + 1 < extents.size() &&
           std::ranges::all_of(extents.first(axis), [](std::int64_t extent) { return extent == 1; });
  }

  /// x divided by one scale for all rows, in f32.
  Quantized scaled_input(Rewriter& r, ValueId x, ValueId scale, const Node& node) {
    const auto [shared, is_new] = scaled_.try_emplace({x, scale, node.region}, Quantized{});
    if (!is_new) return shared->second;
    const Shape& shape = r.shape(x);
    Ints rows(shape.dims().begin(), shape.dims().end() - 1);
    const ValueId one =
        r.emit(Op::kConstant, {}, {{attr::kValues, std::vector<double>{1}}, {attr::kShape, Ints{1}}}, node.path);
    const ValueId inverse = r.emit(Op::kDiv, {one, scale}, {}, node.path);
    const ValueId wide =
        r.type(x).dtype == DType::kF32 ? x : r.emit(Op::kCast, {x}, {{attr::kDType, DType::kF32}}, node.path);
    const ValueId product = r.emit(Op::kMul, {wide, inverse}, {}, node.path);
    shared->second = {r.emit(Op::kCast, {product}, {{attr::kDType, form_.dtype}}, node.path),
                      r.emit(Op::kBroadcast, {scale}, {{attr::kShape, std::move(rows)}}, node.path)};
    return shared->second;
  }

  const QuantizedForm& form_;
  Fp8Argument argument_;
  std::set<ValueId> fast_;       // by result
  std::set<ValueId> chosen_;     // by result
  std::set<ValueId> quantized_;  // what those read
  std::map<std::pair<ValueId, RegionId>, Quantized> inputs_;
  std::map<std::tuple<ValueId, ValueId, RegionId>, Quantized> scaled_;  // by x and scale
  std::vector<PassNote> notes_;
};

PassOutcome quantize_matmuls(Graph& graph, const QuantizedForm& form, std::string_view argument) {
  Quantization quantization(graph, form, argument);
  const int rewrites =
      rewrite_each(graph, [&](Rewriter& r, const Node& node) { return quantization.rewrite(r, node); });
  PassOutcome outcome = outcome_of(rewrites, "no product of tokens with weights is inside the model and large enough");
  outcome.notes = quantization.take_notes();
  return outcome;
}

}  // namespace

PassOutcome int8(Graph& graph, const Target&) { return quantize_matmuls(graph, kInt8, ""); }
PassOutcome fp8(Graph& graph, const Target& /*target*/, std::string_view argument) {
  return quantize_matmuls(graph, kFp8, argument);
}

}  // namespace headroom
