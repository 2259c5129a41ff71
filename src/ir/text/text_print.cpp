#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "ir/schedule.hpp"
#include "ir/text/text.hpp"
#include "ir/text/text_syntax.hpp"

namespace headroom {
namespace {

using text_syntax::bare_or_quoted;

/// Whether values of that kind are referred to by number.
bool is_numbered(ValueKind kind) { return kind == ValueKind::kResult || kind == ValueKind::kRegionResult; }

std::string text_of(const TensorType& type) {
  return fmt::format("{}{}", type, type.layout == Layout::kChannelsLast ? " channels_last" : "");
}

struct AttributeText {
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return fmt::format("{}", value);
  }  // shortest text that reads back equal
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const Epilogue& value) const { return value.to_text(); }
  std::string operator()(bool value) const { return value ? "1" : "0"; }
  template <class E>
    requires std::is_enum_v<E>
  std::string operator()(E value) const {
    return std::string(name_of(value));
  }
};

/// As the parser reads it: texts, and the names of enums other than dtypes, are quoted.
std::string quoted_text(const Attribute& value) {
  const bool is_quoted = std::visit(
      [](const auto& it) {
        using T = std::decay_t<decltype(it)>;
        return std::is_same_v<T, std::string> || (std::is_enum_v<T> && !std::is_same_v<T, DType>);
      },
      value);
  return is_quoted ? text_syntax::quoted(to_text(value)) : to_text(value);
}

class Printer {
 public:
  /// `renumber`: results are numbered in order of appearance instead of by their id.
  Printer(const Graph& graph, bool renumber) : graph_(graph), schedule_(graph), renumber_(renumber) {
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(static_cast<ValueId>(i));
      if (!is_numbered(value.kind)) ++name_counts_[value.name];
    }
  }

  std::string run() {
    text_ = fmt::format("graph {} {{\n", bare_or_quoted(graph_.name()));
    for (const ValueKind kind : {ValueKind::kInput, ValueKind::kParam, ValueKind::kState}) {
      for (const ValueId id : graph_.values_of(kind)) {
        line(fmt::format("{} {}: {}", name_of(kind), declared_name(id), text_of(graph_.type(id))));
      }
    }
    for (const std::string& block : graph_.blocks()) line(fmt::format("block {}", bare_or_quoted(block)));
    print_region(kTopRegion);
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

  /// Prints the items of a region and the updates at its end.
  void print_region(RegionId id) {
    for (const ScheduleItem& item : schedule_.items(id)) {
      if (item.region == kNoRegion)
        print_node(graph_.nodes()[item.node]);
      else
        print_nested(item.region);
    }
    for (const StateUpdate& update : graph_.state_updates())
      if (update.region == id) line(fmt::format("next {} = {}", reference(update.value), reference(update.next)));
  }

  void print_nested(RegionId id) {
    const Region& region = graph_.region(id);
    const bool is_loop = region.kind == RegionKind::kLoop;
    line(is_loop ? fmt::format("loop {} {} {{", region.trip_count, declared_name(region.counter))
                 : fmt::format("if {} {{", reference(region.predicate)));
    ++depth_;
    print_region(id);
    for (const RegionResult& result : region.results) {
      number(result.value);
      line(fmt::format("yield {}: {} = {}{}", reference(result.value), text_of(graph_.type(result.value)),
                       reference(result.from),
                       is_loop || region.branch != kNoRegion ? "" : " else " + reference(result.otherwise)));
    }
    --depth_;
    if (region.branch != kNoRegion) {
      line("} else {");
      ++depth_;
      print_region(region.branch);
      for (const RegionResult& result : region.results)
        line(fmt::format("yield {} = {}", reference(result.value), reference(result.otherwise)));
      --depth_;
    }
    line("}");
  }

  void number(ValueId result) {
    if (renumber_) numbers_.emplace(result, numbers_.size());
  }

  void print_node(const Node& node) {
    std::vector<std::string> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(reference(input));
    std::vector<std::string> results;
    for (const ValueId result : node.results) {
      number(result);
      results.push_back(fmt::format("{}: {}", reference(result), text_of(graph_.type(result))));
    }
    std::string content =
        fmt::format("{} = {}({})", fmt::join(results, ", "), name_of(node.op), fmt::join(inputs, ", "));
    std::vector<std::string> attributes;
    for (const auto& [name, value] : node.attributes.all()) {
      const bool is_body = node.op == Op::kFused && name == "body";
      attributes.push_back(
          fmt::format("{} = {}", name, is_body ? indented(std::get<std::string>(value)) : quoted_text(value)));
    }
    if (!attributes.empty()) content += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
    if (!node.path.empty()) content += fmt::format(" @ {}", bare_or_quoted(node.path));
    line(content);
  }

  /// A body, indented below its node, without its final line break.
  [[nodiscard]] std::string indented(std::string_view body) const {
    std::string text;
    for (const char c : body.substr(0, body.size() - 1)) {
      text += c;
      if (c == '\n') text.append(2 * depth_, ' ');
    }
    return text;
  }

  /// Names that consist only of digits are quoted, because a bare %7 is a result.
  [[nodiscard]] std::string declared_name(ValueId id) const {
    const std::string& name = graph_.value(id).name;
    const bool numeric = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    return "%" + (numeric ? text_syntax::quoted(name) : bare_or_quoted(name));
  }

  /// Names are unique within a kind only. A name that several kinds share is prefixed by the kind: %state:latents.
  [[nodiscard]] std::string reference(ValueId id) const {
    const Value& value = graph_.value(id);
    if (is_numbered(value.kind)) {
      const auto number = numbers_.find(id);
      // A result that no node makes has no number of its own; a broken graph can still be printed.
      if (renumber_ && number == numbers_.end()) return fmt::format("%undefined.{}", index_of(id));
      return fmt::format("%{}", renumber_ ? number->second : index_of(id));
    }
    std::string name = declared_name(id);
    if (name_counts_.at(value.name) == 1) return name;
    return fmt::format("%{}:{}", name_of(value.kind), name.substr(1));
  }

  const Graph& graph_;
  Schedule schedule_;
  bool renumber_;
  std::map<std::string, int, std::less<>> name_counts_;
  std::map<ValueId, std::size_t> numbers_;
  std::string text_;
  std::size_t depth_ = 1;
};

}  // namespace

std::string to_text(const Attribute& value) { return std::visit(AttributeText{}, value); }

std::string print(const Graph& graph) { return Printer(graph, false).run(); }
std::string canonical_text(const Graph& graph) { return Printer(graph, true).run(); }

}  // namespace headroom
