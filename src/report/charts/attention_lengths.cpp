// FLOP/s of attention against the number of tokens: a line for each kernel and peer.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "ir/ops/attention.hpp"
#include "report/charts/charts.hpp"
#include "report/kernel_rates.hpp"
#include "report/plots/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

/// An operand as requests name it: "bf16[1, 24, 4608, 128]".
struct OperandText {
  std::string dtype;
  std::vector<std::int64_t> extents;
};

/// Empty for what is none: a file may hold anything.
OperandText read_operand(const json& value) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (!value.is_string()) return {};
  const std::string text = value;
  const std::size_t bracket = std::min(text.find('['), text.size());
  OperandText operand{.dtype = text.substr(0, bracket), .extents = {}};
  const char* const end = text.data() + text.size();
  for (const char* at = text.data() + bracket; at < end; ++at) {
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error == std::errc::invalid_argument) continue;
    if (error != std::errc{} || extent <= 0 || extent > kMost) return {};
    operand.extents.push_back(extent);
    at = next;
  }
  return operand;
}

/// A member of a request; null if it has none.
json member(const json& of, const char* key) { return of.is_object() && of.contains(key) ? of.at(key) : json(); }

/// Self-attention without a bias, measured by itself.
struct SelfAttention {
  std::string heads;  ///< what lines of one chart have in common: "16 heads of 128, causal"
  std::string dtype;  ///< of queries and keys
  double tokens = 0;
  double flops = 0;  ///< of both matmuls, over the visible keys
};

std::optional<SelfAttention> self_attention_of(const Subject& subject) {
  const bool is_scaled = subject.name == "scaled_attention";
  if (subject.kind != SubjectKind::kKernel || (!is_scaled && subject.name != "attention")) return {};
  const json inputs = member(subject.request, "inputs"), outputs = member(subject.request, "outputs");
  if (!inputs.is_array() || !outputs.is_array() || inputs.size() != (is_scaled ? 6 : 3) || outputs.size() != 1)
    return {};
  const OperandText q = read_operand(inputs[0]), k = read_operand(inputs[is_scaled ? 2 : 1]),
                    out = read_operand(outputs[0]);
  if (q.extents.size() != 4 || k.extents.size() != 4 || out.extents.size() != 4 || q.extents[2] != k.extents[2])
    return {};
  const json attributes = member(subject.request, "attributes");
  const bool is_causal = member(attributes, "causal") == "1";
  const json diagonal = member(attributes, "diagonal");
  if (!diagonal.is_null() && diagonal != "0") return {};  // it sees more or fewer keys than a line's other points
  const std::int64_t batch = q.extents[0], heads = q.extents[1], tokens = q.extents[2], dim = q.extents[3];
  const double pairs = visible_pairs(tokens, tokens, is_causal ? 0 : tokens - 1);
  SelfAttention found{
      .heads = fmt::format("{} heads of {}", heads, dim),
      .dtype = q.dtype,
      .tokens = static_cast<double>(tokens),
      .flops = 2 * static_cast<double>(batch) * static_cast<double>(heads * (dim + out.extents[3])) * pairs};
  if (k.extents[1] != heads) found.heads += fmt::format(", {} of keys", k.extents[1]);
  if (batch != 1) found.heads += fmt::format(", batch {}", batch);
  if (is_causal) found.heads += ", causal";
  return found;
}

/// "fastest.attention bf16"; a peer by its name.
std::string name_of_line(const Measurement& m, const std::string& dtype) {
  if (m.is_peer || !m.result->plan) return m.label;
  return fmt::format("{} {}", kernels_in(m.file->plans.at(*m.result->plan)), dtype);
}

/// What one chart draws: attention in the same heads on one machine.
struct Lengths {
  std::map<double, const Scenario*> points;  ///< by tokens
  std::map<double, double> flops;            ///< by tokens
  std::vector<std::string> names;            ///< of lines, ours first
  std::map<std::string, std::map<double, const Measurement*>> lines;
};

void add_measurement(Lengths& lengths, const Scenario& scenario, const SelfAttention& work, const Measurement& m) {
  const std::string name = name_of_line(m, work.dtype);
  if (!lengths.lines.contains(name)) lengths.names.push_back(name);
  const Measurement*& at = lengths.lines[name][work.tokens];
  if (at == nullptr || m.file->created >= at->file->created) at = &m;
  lengths.points.try_emplace(work.tokens, &scenario);
  lengths.flops[work.tokens] = work.flops;
}

/// By heads and hardware, in the order of the results.
std::vector<std::pair<Sweep, Lengths>> lengths_of(const Dataset& dataset) {
  std::vector<std::pair<Sweep, Lengths>> all;
  for (const bool is_peer : {false, true})
    for (const Scenario& scenario : dataset.scenarios()) {
      const std::optional<SelfAttention> work = self_attention_of(scenario.subject);
      if (!work) continue;
      auto found = std::ranges::find_if(all, [&](const auto& one) {
        return one.first.work == work->heads && one.first.hardware == scenario.hardware;
      });
      if (found == all.end())
        found = all.insert(found, {Sweep{.work = work->heads, .hardware = scenario.hardware, .points = {}}, {}});
      for (const Measurement* m : scenario.current)
        if (m->timing && m->time().median_ms > 0 && m->is_peer == is_peer)
          add_measurement(found->second, scenario, *work, *m);
    }
  return all;
}

/// The lines with two lengths or more, over the points of the sweep.
std::vector<SweepLine> lines_over(const Sweep& sweep, const Lengths& lengths) {
  std::vector<SweepLine> lines;
  for (const std::string& name : lengths.names) {
    const std::map<double, const Measurement*>& measured = lengths.lines.at(name);
    if (measured.size() < 2) continue;
    SweepLine line{.label = name};
    for (const SweepPoint& point : sweep.points) {
      const auto at = measured.find(point.x);
      line.at.push_back(at == measured.end() ? nullptr : at->second);
    }
    lines.push_back(std::move(line));
  }
  tell_lines_apart(lines);
  return lines;
}

}  // namespace

Drawn attention_lengths(const Dataset& dataset) {
  Drawn drawn;
  for (auto& [sweep, lengths] : lengths_of(dataset)) {
    for (const auto& [tokens, scenario] : lengths.points)
      sweep.points.push_back({.x = tokens, .scenario = scenario, .name = fmt::format("{}", tokens)});
    const std::vector<SweepLine> lines = lines_over(sweep, lengths);
    if (lines.empty()) continue;
    const SweepQuantity rate{
        .name = "rate",
        .of = from_time([&](double tokens, double ms) { return lengths.flops.at(tokens) / ms * 1e3; }),
        .axis_fn = "axis_flops",
        .label = [](double flops) { return label_si(flops, "FLOP/s"); },
        .unit = "FLOP/s"};
    drawn.charts.push_back({.file = numbered("attention_lengths", drawn.charts.size()),
                            .title = "Rate of attention by number of tokens",
                            .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
                            .of = dataset.scenarios_of(measurements_of(lines)),
                            .option = sweep_option(sweep, lines, "tokens", rate),
                            .notes = {"The FLOPs are those of both matmuls over the visible keys."}});
    fit_sweep(drawn.charts.back());
    for (std::string& note : notes_on(sweep, lines, "{} tokens")) drawn.charts.back().notes.push_back(std::move(note));
  }
  drawn.left_out = "no attention was measured by itself for two numbers of tokens in the same heads";
  return drawn;
}

}  // namespace headroom::charts
