#include "models/attention.hpp"

namespace headroom {

ValueId split_heads(Builder& b, ValueId x, std::int64_t heads) {
  const Shape& shape = b.shape(x);
  if (heads == 1) return b.reshape(x, {shape[0], 1, shape[1], shape[2]});
  return b.transpose(b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

ValueId attention_of_heads(Builder& b, ValueId q, ValueId k, ValueId v, double scale, ValueId bias) {
  const Shape shape = b.shape(q);  // [batch, heads, tokens, head_dim]
  // applied to the smallest tensor, and the scores stay within f16
  if (scale != 1) q = b.mul_scalar(q, scale);
  ValueId scores = b.matmul(q, k, /*transpose_b=*/true);  // [batch, heads, tokens, tokens of k]
  if (bias != kNoValue) scores = b.add(scores, bias);
  const ValueId context = b.matmul(b.softmax(scores), v);  // [batch, heads, tokens, head_dim]
  return b.reshape(shape[1] == 1 ? context : b.transpose(context, {0, 2, 1, 3}),
                   {shape[0], shape[2], shape[1] * shape[3]});
}

ValueId attention(Builder& b, ValueId q, ValueId k, ValueId v, std::int64_t heads, double scale, ValueId bias) {
  q = split_heads(b, q, heads);
  k = split_heads(b, k, heads);
  v = split_heads(b, v, heads);
  return attention_of_heads(b, q, k, v, scale, bias);
}

}  // namespace headroom
