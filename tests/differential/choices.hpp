#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>
#include <span>

namespace headroom::differential {

/// Random choices that depend only on the seed, on every platform: unlike the standard distributions, mt19937_64
/// itself is fully specified.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : random_(seed) {}

  /// One of 0 .. count - 1.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  /// True with probability 1 / `times`.
  bool one_in(std::size_t times) { return below(times) == 0; }
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  template <typename Range>
  auto& from(Range& range) {
    return *std::next(std::begin(range), static_cast<std::ptrdiff_t>(below(std::size(range))));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace headroom::differential
