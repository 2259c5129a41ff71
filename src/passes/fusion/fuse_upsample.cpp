// fuse-upsample: conv2d(resize2d(x, nearest, twice the size), w[o, c, 3, 3]) {padding = 1}
//   -> conv_transpose2d(x, w'[c, o, 4, 4]) {stride = 2, padding = 1}
//
// Only four of the nine pixels under a 3x3 filter on an image of doubled pixels differ. The filter therefore equals
// one of four 2x2 filters on the small image, chosen by the parity of row and column. This takes 4/9 of the
// multiplications, and the large image is never written. The transposed convolution has all four in one weight: along
// each axis [w2, w1 + w2, w0 + w1, w0]. Exact except for the sums of weights, which are rounded once more.

#include <array>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

bool is_doubling(const Rewriter& r, const Node& resize) {
  const Shape &from = r.shape(resize.inputs[0]), &to = r.shape(resize.results[0]);
  return resize.attributes[attr::kMode] == ResizeMode::kNearest && to[2] == 2 * from[2] && to[3] == 2 * from[3];
}

bool is_plain_3x3(const Rewriter& r, const Node& conv) {
  const Shape& weight = r.shape(conv.input(Role::kWeight));
  const Attributes& how = conv.attributes;
  return r.is_weight(conv.input(Role::kWeight)) && weight[2] == 3 && weight[3] == 3 &&
         how[attr::kStride] == Ints{1, 1} && how[attr::kPadding] == Ints{1, 1, 1, 1} &&
         how[attr::kDilation] == Ints{1, 1} && how[attr::kGroups] == 1 && how[attr::kEpilogue].is_empty();
}

/// [.., 3, ..] -> [w2, w1 + w2, w0 + w1, w0] along an axis.
ValueId four_taps(Rewriter& r, ValueId weight, std::int64_t axis, const std::string& path) {
  std::array<ValueId, 3> w{};
  for (std::int64_t i = 0; i < 3; ++i)
    w[static_cast<std::size_t>(i)] =
        r.emit(Op::kSlice, {weight}, {{attr::kAxis, axis}, {attr::kStart, i}, {attr::kExtent, 1}}, path);
  const ValueId later = r.emit(Op::kAdd, {w[1], w[2]}, {}, path), earlier = r.emit(Op::kAdd, {w[0], w[1]}, {}, path);
  return r.emit(Op::kConcat, {w[2], later, earlier, w[0]}, {{attr::kAxis, axis}}, path);
}

bool fold_upsample(Rewriter& r, const Node& conv) {
  if (conv.op != Op::kConv2d || !is_plain_3x3(r, conv)) return false;
  const Node* resize = r.match_single_use(conv.input(Role::kX), Op::kResize2d);
  if (resize == nullptr || !is_doubling(r, *resize)) return false;
  const ValueId taps =
      four_taps(r, four_taps(r, conv.input(Role::kWeight), 2, conv.path), 3, conv.path);  // [o, c, 4, 4]
  std::vector<ValueId> inputs = conv.inputs;
  inputs[position_of(Op::kConv2d, Role::kX)] = resize->inputs[0];
  inputs[position_of(Op::kConv2d, Role::kWeight)] =
      r.emit(Op::kTranspose, {taps}, {{attr::kPerm, Ints{1, 0, 2, 3}}}, conv.path);
  r.replace(conv.results[0], r.emit(Op::kConvTranspose2d, inputs,
                                    {{attr::kStride, Ints{2, 2}}, {attr::kPadding, Ints{1, 1, 1, 1}}}, conv.path));
  return true;
}

}  // namespace

PassOutcome fuse_upsample(Graph& graph, const Target&) { return {.rewrites = rewrite_each(graph, fold_upsample)}; }

}  // namespace headroom
