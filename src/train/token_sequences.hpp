#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/tensors/host_tensor.hpp"
#include "train/epoch_order.hpp"

namespace headroom {

/// The sequences of a run, cut from one row of tokens, in an EpochOrder. Those of an epoch are disjoint and cover the
/// row; where the first begins is random too.
class TokenSequences {
 public:
  /// `ids` must outlive this object. Throws Error that names `context` if there are less than two sequences of `tokens`
  /// tokens.
  TokenSequences(std::span<const std::uint16_t> ids, std::int64_t tokens, std::uint64_t seed,
                 std::string_view context = "the data");

  /// Sequences in an epoch.
  [[nodiscard]] std::int64_t per_epoch() const noexcept { return order_.count(); }
  /// The place of the first token of sequence `number`, from 0.
  [[nodiscard]] std::int64_t start(std::int64_t number) const;
  /// Fills i32 [..., tokens + 1] with sequences from `number` on: `tokens` tokens and the one after them.
  void fill(HostTensor& sequences, std::int64_t number) const;
  /// The same with sequences from `index` on in the order of the row.
  void fill_in_order(HostTensor& sequences, std::int64_t index) const;

 private:
  void copy(std::int64_t start, std::span<std::int32_t> to) const;

  std::span<const std::uint16_t> ids_;
  std::int64_t tokens_;
  EpochOrder order_;
};

}  // namespace headroom
