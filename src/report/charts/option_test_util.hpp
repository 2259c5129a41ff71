#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// Reads chart options, for tests.
namespace headroom::test {

/// The values of one member over all items of a series.
inline std::vector<nlohmann::json> items_of(const nlohmann::json& series, const std::string& key) {
  std::vector<nlohmann::json> values;
  for (const nlohmann::json& item : series.at("data"))
    if (item.is_object() && item.contains(key)) values.push_back(item.at(key));
  return values;
}

/// The text under a name in the tooltip of an item.
inline std::string tip_text(const nlohmann::json& item, const std::string& name) {
  for (const nlohmann::json& row : item.at("tip").at("rows"))
    if (row.at(0) == name) return row.at(1);
  return "(no such row)";
}

/// The colour role of an item, or of the border of a hollow one: "hollow grey".
inline std::string role_of_item(const nlohmann::json& item) {
  const nlohmann::json& style = item.at("itemStyle");
  if (style.contains("borderColor")) return "hollow " + style.at("borderColor").at("$color").get<std::string>();
  return style.at("color").at("$color");
}

}  // namespace headroom::test
