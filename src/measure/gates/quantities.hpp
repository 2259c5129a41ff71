#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What a gate judges of a result: its time, and what else it costs or is worth.
namespace headroom {

enum class Quantity : std::uint8_t { kTime, kP99, kMemory, kSize, kPsnr, kAccuracy, kFrechet, kError, kFlicker, kFlip };
inline constexpr std::size_t kQuantities = 10;

struct QuantityInfo {
  Quantity quantity;
  std::string_view name;    ///< in options and budget files: "memory"
  std::string_view words;   ///< in tables: "peak memory"
  std::string_view metric;  ///< QualityRecord::metric; empty where it is no quality
  bool is_difference;       ///< judged by new - base, more being better; else by new / base, less being better
  double limit;             ///< the least worsening that is a regression, unless told: a share, or of PSNR dB
};
[[nodiscard]] std::span<const QuantityInfo> all_quantities();
[[nodiscard]] const QuantityInfo& info_of(Quantity quantity);
/// Of its values: "ms", "bytes", "dB"; empty for shares and plain numbers.
[[nodiscard]] std::string_view unit_of(Quantity quantity);
/// Null for a metric that is not known.
[[nodiscard]] const QuantityInfo* find_metric_quantity(std::string_view metric);
/// Null for a name that is not known.
[[nodiscard]] const QuantityInfo* find_quantity(std::string_view name);

/// Closer than this two images differ by the rounding of f32 alone, and neither is the better one: a PSNR over the one
/// counts as it, and so does an error below the other.
inline constexpr double kMostPsnrDb = 100;
inline constexpr double kLeastError = 1e-5;

/// A value in its unit: "12.3 ms", "1.20 GiB", "34.5 dB", "96.2%".
[[nodiscard]] std::string format_quantity(Quantity quantity, double value);
/// A limit: "5%", "0.5 dB".
[[nodiscard]] std::string format_limit(Quantity quantity, double limit);

/// The least worsening of each quantity that is a regression, and which of them the user named.
class Limits {
 public:
  Limits();
  [[nodiscard]] double of(Quantity quantity) const { return limits_[index_of(quantity)]; }
  /// Whether the user gave it a limit: what cannot be judged is then a reason to stop.
  [[nodiscard]] bool is_asked(Quantity quantity) const { return asked_[index_of(quantity)]; }
  [[nodiscard]] bool is_off(Quantity quantity) const { return off_[index_of(quantity)]; }
  void set(Quantity quantity, double limit);
  void turn_off(Quantity quantity);

 private:
  [[nodiscard]] static std::size_t index_of(Quantity quantity) { return static_cast<std::size_t>(quantity); }
  std::array<double, kQuantities> limits_{};
  std::array<bool, kQuantities> asked_{};
  std::array<bool, kQuantities> off_{};
};

/// "memory=5%,psnr=0.5dB,p99=off": a share, of PSNR a number of dB. Throws a usage Error that names `option` for
/// anything else, a name that is not known or twice there, and time=off.
[[nodiscard]] Limits parse_limits(std::string_view list, std::string_view option);

}  // namespace headroom
