#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Validators for numeric options, all in decimal. A refused value is a usage error that states the allowed range.
/// They are stricter than CLI11: CLI::Range accepts NaN, and CLI11 reads 010 as octal and -1 as the largest
/// unsigned number.
namespace headroom {

/// A whole number without leading zeros.
[[nodiscard]] CLI::Validator whole_number(std::int64_t low, std::int64_t high);
/// The same for all values of std::uint64_t.
[[nodiscard]] CLI::Validator seed_number();
/// A finite number.
[[nodiscard]] CLI::Validator real_number(double low, double high);

/// A share between 0 and 1, as parse_share() reads it, or 0: "1%" or "0.01". A bare "5" is refused as ambiguous.
/// The option receives the fraction.
[[nodiscard]] CLI::Validator share();

/// A size in bytes: "16GiB", "1.5GB" or "4096", from one byte to 1 EiB. The option receives the number of bytes.
[[nodiscard]] CLI::Validator byte_size();

/// Parses lists of whole_number(), with at least one number in all. `option` is named in the usage Error. A
/// non-empty `own` is a word that may replace a number and gives 0.
[[nodiscard]] std::vector<std::int64_t> parse_whole_numbers(const std::vector<std::string>& lists,
                                                            std::string_view option, std::int64_t low,
                                                            std::int64_t high, std::string_view own = {});

}  // namespace headroom
