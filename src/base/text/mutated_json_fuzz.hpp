#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

/// For fuzz targets that read JSON: slightly mutated documents. Random bytes are almost never JSON and would not
/// get past the parser.
namespace headroom {

/// Values that readers of configurations handle wrongly: limits of integers, non-numbers, other types.
inline nlohmann::json odd_value(std::minstd_rand& random) {
  static const std::vector<nlohmann::json> kOdd = {0,
                                                   -1,
                                                   1,
                                                   2,
                                                   3,
                                                   7,
                                                   8,
                                                   64,
                                                   1000,
                                                   0.5,
                                                   -0.5,
                                                   1e-320,
                                                   1e-9,
                                                   1e300,
                                                   2147483647,
                                                   2147483648LL,
                                                   4294967296LL,
                                                   9007199254740992LL,
                                                   INT64_MAX,
                                                   INT64_MIN,
                                                   UINT64_MAX,
                                                   nullptr,
                                                   true,
                                                   false,
                                                   "",
                                                   "x",
                                                   "é",
                                                   std::string(100, 'x'),
                                                   "silu",
                                                   "epsilon",
                                                   "trailing",
                                                   "linspace",
                                                   "leading",
                                                   "linear",
                                                   "scaled_linear",
                                                   "squaredcos_cap_v2",
                                                   "sample",
                                                   "dpmsolver++",
                                                   "sde-dpmsolver++",
                                                   "midpoint",
                                                   "heun",
                                                   "zero",
                                                   "sigma_min",
                                                   nlohmann::json::array(),
                                                   nlohmann::json::object(),
                                                   nlohmann::json::array({0}),
                                                   nlohmann::json::array({1, 2}),
                                                   nlohmann::json::array({-1, 1e300}),
                                                   nlohmann::json::array({"x", nullptr}),
                                                   nlohmann::json{{"a", 1}}};
  return kOdd[random() % kOdd.size()];
}

/// Any value within the document.
inline nlohmann::json& any_place(nlohmann::json& document, std::minstd_rand& random) {
  nlohmann::json* at = &document;
  while (at->is_structured() && !at->empty() && (at == &document || random() % 3 != 0)) {
    auto next = at->begin();
    std::advance(next, static_cast<std::ptrdiff_t>(random() % at->size()));
    at = &*next;
  }
  return *at;
}

/// For LLVMFuzzerCustomMutator: returns the new size of `data`, or 0 if it is not JSON.
inline std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  nlohmann::json document = nlohmann::json::parse(std::string_view(reinterpret_cast<const char*>(data), size), nullptr,
                                                  /*allow_exceptions=*/false);
  if (document.is_discarded()) return 0;
  for (unsigned count = 1 + static_cast<unsigned>(random() % 3); count > 0; --count) {
    nlohmann::json& place = any_place(document, random);
    switch (random() % 6) {
      case 0:
        if (document.is_object() && !document.empty())
          document.erase(std::next(document.begin(), static_cast<std::ptrdiff_t>(random() % document.size())).key());
        break;
      case 1:
        if (place.is_number_integer()) place = place.get<std::int64_t>() / 4 * static_cast<std::int64_t>(random() % 5);
        break;
      case 2:
        if (place.is_array() && !place.empty()) place.push_back(place.front());
        break;
      default:
        place = odd_value(random);
    }
  }
  const std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > most) return 0;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

}  // namespace headroom
