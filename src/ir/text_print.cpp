#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ir/schedule.hpp"
#include "ir/text.hpp"
#include "ir/text_syntax.hpp"

namespace headroom {
namespace {

using text_syntax::bare_or_quoted;
using text_syntax::keyword_of;

std::string text_of(const TensorType& type) {
  const std::string_view layout = type.layout == Layout::kChannelsLast ? " channels_last" : "";
  return fmt::format("{}{}{}", type.dtype, type.shape, layout);
}

struct AttributeText {
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return fmt::format("{}", value);
  }  // shortest text that reads back equal
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const std::string& value) const { return text_syntax::quoted(value); }
  std::string operator()(DType value) const { return std::string(name_of(value)); }
};

class Printer {
 public:
  /// `renumber`: results are numbered in order of appearance instead of by their id.
  Printer(const Graph& graph, bool renumber) : graph_(graph), renumber_(renumber) {
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(static_cast<ValueId>(i));
      if (value.kind != ValueKind::kResult) ++name_counts_[value.name];
    }
  }

  std::string run() {
    text_ = fmt::format("graph {} {{\n", bare_or_quoted(graph_.name()));
    for (const ValueKind kind : {ValueKind::kInput, ValueKind::kParam, ValueKind::kState}) {
      for (const ValueId id : graph_.values_of(kind)) {
        line(fmt::format("{} {}: {}", keyword_of(kind), declared_name(id), text_of(graph_.type(id))));
      }
    }
    print_region(kTopRegion, 0, graph_.nodes().size());
    for (const Output& output : graph_.outputs()) {
      line(fmt::format("output {} = {}", bare_or_quoted(output.name), reference(output.value)));
    }
    return text_ + "}\n";
  }

 private:
  void line(const std::string& content) {
    text_.append(2 * depth_, ' ');
    text_ += content;
    text_ += '\n';
  }

  void print_region(RegionId region, std::size_t begin, std::size_t end) {
    for (const ScheduleItem& item : schedule_of(graph_, region, begin, end)) {
      if (item.loop < 0) {
        print_node(graph_.nodes()[item.begin]);
        continue;
      }
      const Region& loop = graph_.regions()[static_cast<std::size_t>(item.loop)];
      line(fmt::format("loop {} {} {{", loop.trip_count, declared_name(loop.counter)));
      ++depth_;
      print_region(item.loop, item.begin, item.end);
      --depth_;
      line("}");
    }
    for (const StateUpdate& update : graph_.state_updates()) {
      if (update.region == region) line(fmt::format("next {} = {}", reference(update.value), reference(update.next)));
    }
  }

  void print_node(const Node& node) {
    std::vector<std::string> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(reference(input));
    std::vector<std::string> results;
    for (const ValueId result : node.results) {
      if (renumber_) numbers_.emplace(result, numbers_.size());
      results.push_back(fmt::format("{}: {}", reference(result), text_of(graph_.type(result))));
    }
    std::string content =
        fmt::format("{} = {}({})", fmt::join(results, ", "), name_of(node.op), fmt::join(inputs, ", "));
    std::vector<std::string> attributes;
    for (const auto& [name, value] : node.attributes.all()) {
      attributes.push_back(fmt::format("{} = {}", name, std::visit(AttributeText{}, value)));
    }
    if (!attributes.empty()) content += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
    if (!node.path.empty()) content += fmt::format(" @ {}", bare_or_quoted(node.path));
    line(content);
  }

  /// Names made of digits alone are quoted, for a bare %7 is a result.
  [[nodiscard]] std::string declared_name(ValueId id) const {
    const std::string& name = graph_.value(id).name;
    const bool numeric = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    return "%" + (numeric ? text_syntax::quoted(name) : bare_or_quoted(name));
  }

  /// Names are unique within a kind only; one that several kinds share is told apart by the kind: %state:latents.
  [[nodiscard]] std::string reference(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.kind == ValueKind::kResult) {
      const auto number = numbers_.find(id);
      // A result that no node makes has no number of its own; a broken graph can still be printed.
      if (renumber_ && number == numbers_.end()) return fmt::format("%undefined.{}", index_of(id));
      return fmt::format("%{}", renumber_ ? number->second : index_of(id));
    }
    std::string name = declared_name(id);
    if (name_counts_.at(value.name) == 1) return name;
    return fmt::format("%{}:{}", keyword_of(value.kind), name.substr(1));
  }

  const Graph& graph_;
  bool renumber_;
  std::map<std::string, int, std::less<>> name_counts_;
  std::map<ValueId, std::size_t> numbers_;
  std::string text_;
  std::size_t depth_ = 1;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph, false).run(); }
std::string canonical_text(const Graph& graph) { return Printer(graph, true).run(); }

}  // namespace headroom
