#include "models/attention.hpp"

namespace headroom {
namespace {

/// [batch, tokens, heads * head_dim] -> [batch, heads, tokens, head_dim]
ValueId split_heads(Builder& b, ValueId x, std::int64_t heads) {
  const Shape& shape = b.shape(x);
  if (heads == 1) return b.reshape(x, {shape[0], 1, shape[1], shape[2]});
  return b.transpose(b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

}  // namespace

ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, std::int64_t heads, double scale, ValueId bias) {
  const Shape shape = b.shape(q);
  q = split_heads(b, q, heads);  // [batch, heads, tokens, head_dim]
  k = split_heads(b, k, heads);
  v = split_heads(b, v, heads);
  // applied to the smallest tensor, and the scores stay within f16
  if (scale != 1) q = b.mul_scalar(q, scale);
  ValueId scores = b.matmul(q, k, /*transpose_b=*/true);  // [batch, heads, tokens, tokens of k]
  if (bias != kNoValue) scores = b.add(scores, bias);
  const ValueId context = b.matmul(b.softmax(scores), v);  // [batch, heads, tokens, head_dim]
  return b.reshape(heads == 1 ? context : b.transpose(context, {0, 2, 1, 3}), {shape[0], shape[1], shape[2]});
}

}  // namespace headroom
