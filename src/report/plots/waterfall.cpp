#include "report/plots/waterfall.hpp"

#include <algorithm>

namespace headroom {

using nlohmann::json;

json waterfall(const std::vector<WaterfallStep>& steps, std::string_view total, std::string_view axis_name,
               std::string_view axis_fn) {
  std::vector<std::string> names, texts = {std::string(total)};
  json bases = json::array(), changes = json::array(), ends = json::array(), intervals = json::array();
  const auto add = [&](const WaterfallStep& step, std::string name, double from, double to, std::string_view role) {
    const double end = std::max({from, to, step.interval ? step.interval->high : to});
    if (step.interval) intervals.push_back(json::array({names.size(), step.interval->low, step.interval->high}));
    names.push_back(std::move(name));
    texts.push_back(step.text);
    bases.push_back(std::min(from, to));
    changes.push_back({{"value", std::max(from, to) - std::min(from, to)},
                       {"name", names.back()},
                       {"text", step.text},
                       {"tip", step.tip},
                       {"itemStyle", item_style(role, step.is_hollow)}});
    ends.push_back({{"value", end}, {"text", step.text}});
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double before = i == 0 ? 0 : steps[i - 1].value;
    const Finding change = i == 0 ? Finding::kInconclusive : steps[i].change;
    const std::string_view role = change == Finding::kAbove ? "green" : change == Finding::kBelow ? "purple" : "base";
    add(steps[i], steps[i].name, before, steps[i].value, role);
  }
  add(steps.back(), "all together", 0, steps.back().value, "orange");
  ends.back()["text"] = total;
  changes.back()["text"] = total;

  json option = base_option();
  option["grid"] = {{"left", 8}, {"top", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis(axis_name, axis_fn);
  option["xAxis"]["min"] = 0;
  const json unseen = {{"color", "transparent"}};
  option["series"] =
      json::array({{{"type", "bar"},
                    {"stack", "change"},
                    {"silent", true},
                    {"barMaxWidth", 26},
                    {"itemStyle", unseen},
                    {"data", bases}},
                   {{"type", "bar"}, {"stack", "change"}, {"barMaxWidth", 26}, {"barGap", "-100%"}, {"data", changes}},
                   {{"type", "bar"},
                    {"silent", true},
                    {"barMaxWidth", 26},
                    {"itemStyle", unseen},
                    {"data", ends},
                    {"label", value_label()}}});
  if (!intervals.empty()) option["series"].push_back(horizontal_whiskers(std::move(intervals)));
  fit_bars(option, texts);
  if (axis_fn == "axis_bytes")
    set_byte_axis(option, axis_name, std::ranges::max(steps, {}, &WaterfallStep::value).value);
  return option;
}

}  // namespace headroom
