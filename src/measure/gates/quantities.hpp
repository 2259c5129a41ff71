#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The quantities of a result that a gate judges: its time, and its other costs and its quality.
namespace headroom {

enum class Quantity : std::uint8_t { kTime, kP99, kMemory, kSize, kPsnr, kAccuracy, kFrechet, kError, kFlicker, kFlip };
inline constexpr std::size_t kQuantities = 10;

struct QuantityInfo {
  Quantity quantity;
  std::string_view name;    ///< in options and budget files: "memory"
  std::string_view words;   ///< in tables: "peak memory"
  std::string_view metric;  ///< QualityRecord::metric; empty if it is not a quality
  bool is_difference;       ///< judged by new - base, higher being better; otherwise by new / base, lower being better
  double limit;             ///< default of the least worsening that is a regression: a share, or dB for PSNR
};
[[nodiscard]] std::span<const QuantityInfo> all_quantities();
[[nodiscard]] const QuantityInfo& info_of(Quantity quantity);
/// The unit of its values: "ms", "bytes", "dB"; empty for shares and plain numbers.
[[nodiscard]] std::string_view unit_of(Quantity quantity);
/// Null for an unknown metric.
[[nodiscard]] const QuantityInfo* find_metric_quantity(std::string_view metric);
/// Null for an unknown name.
[[nodiscard]] const QuantityInfo* find_quantity(std::string_view name);

/// Images closer than this differ only by the rounding of f32, and neither is better. A PSNR above kMostPsnrDb counts
/// as kMostPsnrDb, and an error below kLeastError as kLeastError.
inline constexpr double kMostPsnrDb = 100;
inline constexpr double kLeastError = 1e-5;

/// A value in its unit: "12.3 ms", "1.20 GiB", "34.5 dB", "96.2%".
[[nodiscard]] std::string format_quantity(Quantity quantity, double value);
/// A limit: "5%", "0.5 dB".
[[nodiscard]] std::string format_limit(Quantity quantity, double limit);

/// The least worsening of each quantity that is a regression, and which quantities the user named.
class Limits {
 public:
  Limits();
  [[nodiscard]] double of(Quantity quantity) const { return limits_[index_of(quantity)]; }
  /// Whether the user gave it a limit; if it cannot be judged, the gate then stops.
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

/// Parses "memory=5%,psnr=0.5dB,p99=off": a share, or dB for PSNR. Throws a usage Error that names `option` for
/// anything else, an unknown or repeated name, and time=off.
[[nodiscard]] Limits parse_limits(std::string_view list, std::string_view option);

}  // namespace headroom
