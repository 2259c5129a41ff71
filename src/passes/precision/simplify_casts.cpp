// simplify-casts: cast(x: f32, f32)             ->  x
//                 cast(cast(x: bf16, f32), d)   ->  cast(x, d), and x itself if d is bf16
//                 cast(concat(weights...), d)   ->  concat(cast(weights, d)...)
//                 cast(unpack_blocks(b), d)     ->  unpack_blocks(b) {dtype = d}
//
// Exact: widening loses nothing, so later casts may start from the value of fewer bits. Weights are cast before they
// are joined, so that folding them at load never holds the joined copy in f32, and so that a cast back to the
// checkpoint's dtype cancels.

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// Whether `to` holds every value of the floating-point dtype `from`. Integers are excluded.
bool widens(DType from, DType to) {
  if (!is_float(from) || !is_float(to)) return false;
  if (from == to || to == DType::kF64) return true;
  if (from == DType::kF64) return false;
  if (to == DType::kF32) return true;
  // f16 and bf16 hold the f8 formats, which have fewer exponent and mantissa bits, but not each other.
  return size_of(from) == 1 && size_of(to) == 2;
}

/// The source of an exact widening, from which cast(x, dtype) can start instead of x.
const Node* widening_of(const Rewriter& r, ValueId x) {
  const Node* cast = r.match(x, Op::kCast);
  return cast != nullptr && widens(r.type(cast->inputs[0]).dtype, r.type(x).dtype) ? cast : nullptr;
}

/// The concatenation of weights that makes x, if it has no other reader: otherwise both copies would be kept.
const Node* joined_weights(const Rewriter& r, ValueId x) {
  return r.is_weight(x) ? r.match_single_use(x, Op::kConcat) : nullptr;
}

/// The node that unpacks x, if x has no other reader and unpacking can round to the dtype.
const Node* unpacking_of(const Rewriter& r, ValueId x, DType dtype) {
  const bool is_made = dtype == DType::kBF16 || dtype == DType::kF16;
  return is_made && r.type(x).dtype == DType::kF32 ? r.match_single_use(x, Op::kUnpackBlocks) : nullptr;
}

/// Whether `x` can replace a copy of itself: a state cannot, since it changes while the copy does not.
bool can_replace_copy(const Rewriter& r, ValueId x) { return r.graph().value(x).kind != ValueKind::kState; }

/// cast(x, dtype), from the earliest source that is exact.
ValueId cast_from_source(Rewriter& r, ValueId x, DType dtype, const std::string& path) {
  if (r.type(x).dtype == dtype && can_replace_copy(r, x)) return x;
  if (const Node* widening = widening_of(r, x)) return cast_from_source(r, widening->inputs[0], dtype, path);
  if (const Node* concat = joined_weights(r, x)) {
    std::vector<ValueId> parts;
    for (const ValueId part : concat->inputs) parts.push_back(cast_from_source(r, part, dtype, path));
    return r.emit_like(*concat, std::move(parts), concat->attributes);
  }
  if (const Node* unpacking = unpacking_of(r, x, dtype))
    return r.emit_like(*unpacking, unpacking->inputs, unpacking->attributes.with(attr::kDType, dtype));
  return r.emit(Op::kCast, {x}, {{attr::kDType, dtype}}, path);
}

bool simplify(Rewriter& r, const Node& node) {
  if (node.op != Op::kCast) return false;
  const ValueId x = node.inputs[0];
  const DType dtype = node.attributes[attr::kDType];
  const bool is_copy = r.type(x).dtype == dtype && can_replace_copy(r, x);
  if (!is_copy && widening_of(r, x) == nullptr && joined_weights(r, x) == nullptr &&
      unpacking_of(r, x, dtype) == nullptr)
    return false;
  r.replace(node.results[0], cast_from_source(r, x, dtype, node.path));
  return true;
}

}  // namespace

PassOutcome simplify_casts(Graph& graph, const Target&) { return {.rewrites = rewrite_each(graph, simplify)}; }

}  // namespace headroom
