#include "report/chart_names.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/files/hash.hpp"
#include "report/dataset.hpp"

namespace headroom {
namespace {

constexpr std::string_view kChartKinds[] = {
#define HR_CHART(name) #name,
#include "report/charts/charts.def"
#undef HR_CHART
};

/// The attributes that distinguish works, in the order of names; an attribute that a work lacks is empty.
using NameParts = std::vector<std::string>;

std::string number_text(double value) { return file_slug(fmt::format("{}", value)); }

std::string size_part(const Subject& subject) {
  const auto number = [&](const char* key) { return request_number(subject, key); };
  const auto text = [](double width, double height) {
    return fmt::format("{}x{}", number_text(width), number_text(height));
  };
  if (const auto width = number("width"), height = number("height"); width && height) return text(*width, *height);
  const double pixels = subject.token_pixels ? static_cast<double>(*subject.token_pixels) : 0;
  if (const auto rows = number("token_rows"), columns = number("token_columns"); rows && columns)
    return pixels > 0 ? text(*columns * pixels, *rows * pixels) : text(*columns, *rows) + "tokens";
  if (const auto tokens = number("image_tokens")) {
    const double side = std::round(std::sqrt(*tokens));
    return pixels > 0 && side * side == *tokens ? text(side * pixels, side * pixels) : number_text(*tokens) + "tokens";
  }
  const auto tokens = number("text_tokens");
  return tokens ? number_text(*tokens) + "text" : "";
}

NameParts name_parts(const Subject& subject) {
  if (subject.kind == SubjectKind::kKernel) return {};  // a chart of kernels covers all measured ones
  const auto part = [&](const char* key, std::string_view before, std::string_view after) {
    const std::optional<double> value = request_number(subject, key);
    return value ? fmt::format("{}{}{}", before, number_text(*value), after) : std::string();
  };
  const auto pass = subject.request.find("pass");
  const std::optional<double> batch = batch_of(subject);
  return {file_slug(subject.name),
          size_part(subject),
          batch ? "b" + number_text(*batch) : "",
          part("steps", "", "steps"),
          pass != subject.request.end() && pass->is_string() ? file_slug(pass->get<std::string>()) : "",
          part("fps", "", "fps")};
}

/// "h200" for "NVIDIA H200, driver 570.1"; empty for a CPU.
std::string gpu_part(const Scenario& scenario) {
  if (scenario.all.front()->result->configuration.device != "cuda") return {};
  std::string_view name = scenario.hardware;
  name = name.substr(0, name.find(','));
  constexpr std::string_view kVendor = "NVIDIA ";
  if (name.starts_with(kVendor)) name.remove_prefix(kVendor.size());
  return file_slug(name);
}

std::vector<const Scenario*> works_of(const Chart& chart) {
  return chart.shown == nullptr ? chart.of : std::vector<const Scenario*>{chart.shown};
}

std::string plain_name(const Chart& chart) {
  std::vector<std::string> parts = {file_slug(chart.kind)};
  NameParts shared;
  std::set<std::string> gpus;
  const std::vector<const Scenario*> works = works_of(chart);
  for (const Scenario* scenario : works) {
    const NameParts own = name_parts(scenario->subject);
    if (scenario == works.front()) shared = own;
    for (std::size_t i = 0; i < shared.size(); ++i)
      if (i >= own.size() || own[i] != shared[i]) shared[i].clear();
    gpus.insert(gpu_part(*scenario));
  }
  for (const std::string& part : shared) parts.push_back(part);
  parts.push_back(file_slug(chart.variant));
  if (gpus.size() == 1) parts.push_back(*gpus.begin());
  std::erase(parts, "");
  return fmt::format("{}", fmt::join(parts, "-"));
}

/// The time of its first result.
std::string begin_of(const Chart& chart) {
  std::string first = "~";  // sorts after every date
  for (const Scenario* scenario : works_of(chart))
    if (const std::string& created = scenario->all.front()->file->created; !created.empty())
      first = std::min(first, created);
  return first;
}

/// Six digits that identify the content of a chart.
std::string identity_of(const Chart& chart) {
  Hasher hasher;
  hasher.add(chart.kind).add(chart.variant).add(chart.title);
  std::set<std::string> works;  // sorted, to be independent of their order
  for (const Scenario* scenario : works_of(chart))
    works.insert(fmt::format("{}|{}{}", work_hash(scenario->subject), scenario->hardware, scenario->model));
  for (const std::string& work : works) hasher.add(work);
  return hasher.hex().substr(0, 6);
}

}  // namespace

std::string file_slug(std::string_view text, std::size_t most) {
  std::string slug;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') || lower == '_')
      slug += lower;
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  if (slug.size() <= most) return slug;
  constexpr std::size_t kOfHash = 6;
  const std::size_t room = most - kOfHash - 1;
  const std::size_t last_word = slug[room] == '-' ? room : slug.rfind('-', room);
  slug.resize(last_word == std::string::npos || last_word < room / 2 ? room : last_word);
  Hasher hasher;
  return fmt::format("{}-{}", slug, hasher.add(text).hex().substr(0, kOfHash));
}

void name_charts(std::vector<Chart>& charts) {
  std::map<std::string, std::vector<Chart*>> by_name;
  for (Chart& chart : charts) {
    chart.file = plain_name(chart);
    by_name[chart.file].push_back(&chart);
  }
  std::set<std::string> taken;
  for (const auto& [name, same] : by_name) taken.insert(name);
  for (auto& [name, same] : by_name) {
    std::ranges::stable_sort(same, {},
                             [](const Chart* chart) { return std::pair(begin_of(*chart), identity_of(*chart)); });
    for (std::size_t i = 1; i < same.size(); ++i) {
      std::string unique = fmt::format("{}-{}", name, identity_of(*same[i]));
      for (int n = 2; !taken.insert(unique).second; ++n)
        unique = fmt::format("{}-{}-{}", name, identity_of(*same[i]), n);
      same[i]->file = unique;
    }
  }
}

bool may_be_chart_name(std::string_view name) {
  return std::ranges::any_of(kChartKinds, [&](std::string_view kind) {
    return name.starts_with(kind) && (name.size() == kind.size() || name[kind.size()] == '-');
  });
}

bool is_numbered_chart_name(std::string_view name) {
  return std::ranges::any_of(kChartKinds, [&](std::string_view kind) {
    if (!name.starts_with(kind)) return false;
    const std::string_view rest = name.substr(kind.size());
    return rest.empty() ||
           (rest.size() > 1 && rest[0] == '-' && rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
  });
}

}  // namespace headroom
