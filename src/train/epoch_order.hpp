#pragma once

#include <cstdint>

namespace headroom {

/// The order in which a run goes through its samples. Which sample is number `number` of the run is a function of the
/// seed and the number alone, so nothing of the order is ever stored. Each epoch has every sample once.
class EpochOrder {
 public:
  /// `count` must be positive.
  EpochOrder(std::int64_t count, std::uint64_t seed);

  /// Samples in an epoch.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// The sample that is number `number`, from 0.
  [[nodiscard]] std::int64_t sample(std::int64_t number) const;
  /// A random number of the epoch that number `number` is in.
  [[nodiscard]] std::uint32_t of_epoch(std::int64_t number) const;

 private:
  [[nodiscard]] std::uint32_t draw(std::uint32_t what, std::uint32_t value, std::int64_t epoch) const;

  std::int64_t count_;
  std::uint64_t seed_;
};

}  // namespace headroom
