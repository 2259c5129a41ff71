#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Checks of options that are numbers, all written in decimal. What they refuse is a usage error that says what is
/// allowed. CLI::Range lets NaN pass, and CLI11 by itself reads 010 as octal and -1 as the largest unsigned number.
namespace headroom {

/// A whole number without leading zeros.
[[nodiscard]] CLI::Validator whole_number(std::int64_t low, std::int64_t high);
/// The same over all of std::uint64_t.
[[nodiscard]] CLI::Validator seed_number();
/// A number that is neither infinite nor NaN.
[[nodiscard]] CLI::Validator real_number(double low, double high);

/// A share from nothing to all, as parse_share() reads it and 0: "1%" or "0.01"; a bare "5" is refused, because it might be either. The
/// option gets the fraction.
[[nodiscard]] CLI::Validator share();

/// A size in bytes: "16GiB", "1.5GB" or "4096", from one byte to 1 EiB. The option gets the number of bytes.
[[nodiscard]] CLI::Validator byte_size();

/// Lists of whole_number(), at least one number in all. `option` is named in the usage Error. Where `own` is not empty it may stand
/// for a number, and gives 0.
[[nodiscard]] std::vector<std::int64_t> parse_whole_numbers(const std::vector<std::string>& lists,
                                                            std::string_view option, std::int64_t low,
                                                            std::int64_t high, std::string_view own = {});

}  // namespace headroom
