#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/schedule.hpp"
#include "ir/text.hpp"
#include "ir/text_syntax.hpp"

namespace headroom {
namespace {

using text_syntax::Lexer;
using text_syntax::Token;
using text_syntax::TokenKind;

/// Recursive descent over the grammar that text.hpp shows. Values are known by the text that refers to them.
class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), graph_("") {}

  Graph run() {
    lexer_.expect_word("graph");
    graph_ = Graph(lexer_.expect_name("the graph's name").text);
    lexer_.expect('{');
    parse_region(kTopRegion);
    lexer_.expect('}');
    if (lexer_.peek().kind != TokenKind::kEnd) Lexer::fail_at(lexer_.peek(), "nothing may follow the graph");
    graph_.set_nodes(std::move(nodes_));
    return std::move(graph_);
  }

 private:
  /// Runs `action`, putting the place in the text before what it complains of.
  template <typename Action>
  static auto located(const Token& place, Action action) {
    try {
      return action();
    } catch (const std::exception& error) {  // Error, or std::logic_error for names used twice
      Lexer::fail_at(place, error.what());
    }
  }

  void parse_region(RegionId region) {
    while (!lexer_.at_symbol('}')) {
      const Token start = lexer_.peek();
      const bool top = region == kTopRegion;
      if (lexer_.at_symbol('%')) {
        parse_node(region);
      } else if (lexer_.accept_word("loop")) {
        parse_loop(region);
      } else if (lexer_.accept_word("next")) {
        parse_next(region);
      } else if (top && lexer_.accept_word("output")) {
        parse_output();
      } else if (top && lexer_.accept_word("input")) {
        parse_declaration(&Graph::add_input);
      } else if (top && lexer_.accept_word("param")) {
        parse_declaration(&Graph::add_param);
      } else if (top && lexer_.accept_word("state")) {
        parse_declaration(&Graph::add_state);
      } else if (start.kind == TokenKind::kEnd) {
        Lexer::fail_at(start, "expected \"}\", but found the end of the text");
      } else {
        Lexer::fail_at(start, fmt::format("expected a declaration, a node, a loop or \"}}\", but found {}",
                                          text_syntax::quoted(start.text)));
      }
    }
  }

  void parse_declaration(ValueId (Graph::*declare)(std::string, TensorType)) {
    const Token name = parse_value_name();
    lexer_.expect(':');
    const TensorType type = parse_type();
    located(name, [&] { return (graph_.*declare)(name.text, type); });
  }

  void parse_loop(RegionId parent) {
    const Token count = lexer_.peek();
    const std::int64_t trip_count = lexer_.expect_integer("a trip count");
    if (trip_count < 1) Lexer::fail_at(count, fmt::format("a loop runs at least once, not {} times", trip_count));
    const Token name = parse_value_name();
    const RegionId loop = located(name, [&] { return graph_.add_loop(parent, trip_count, name.text); });
    homes_[graph_.regions()[static_cast<std::size_t>(loop)].counter] = loop;
    lexer_.expect('{');
    parse_region(loop);
    lexer_.expect('}');
  }

  void parse_next(RegionId region) {
    const Token place = lexer_.peek();
    const ValueId state = parse_reference(region);
    if (graph_.value(state).kind != ValueKind::kState) Lexer::fail_at(place, "only a state has a next value");
    const auto updated = [&](const StateUpdate& update) { return update.value == state; };
    if (std::ranges::any_of(graph_.state_updates(), updated))
      Lexer::fail_at(place, "the state has a next value already");
    lexer_.expect('=');
    graph_.set_next(state, parse_reference(region), region);
  }

  void parse_output() {
    const Token name = lexer_.expect_name("the output's name");
    lexer_.expect('=');
    const ValueId value = parse_reference(kTopRegion);
    located(name, [&] {
      graph_.add_output(name.text, value);
      return value;
    });
  }

  void parse_node(RegionId region) {
    std::vector<Token> numbers;
    std::vector<TensorType> types;
    do {
      lexer_.expect('%');
      numbers.push_back(lexer_.expect_name("the number of a result"));
      if (!is_number(numbers.back())) Lexer::fail_at(numbers.back(), "a node's results are called by number: %7");
      lexer_.expect(':');
      types.push_back(parse_type());
    } while (lexer_.accept(','));
    lexer_.expect('=');
    const Token op_name = lexer_.expect_name("an op");
    const std::optional<Op> op = parse_op(op_name.text);
    if (!op) Lexer::fail_at(op_name, fmt::format("there is no op called \"{}\"", op_name.text));

    Node node{*op, {}, parse_operands(region), {}, {}, region};
    node.attributes = parse_attributes(*op, op_name);
    if (lexer_.accept('@')) node.path = lexer_.expect_name("a path").text;
    check_types(node, types, op_name);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const ValueId result = graph_.add_result(types[i]);
      if (!results_.emplace(numbers[i].text, result).second) {
        Lexer::fail_at(numbers[i], fmt::format("%{} is defined twice", numbers[i].text));
      }
      homes_[result] = region;
      node.results.push_back(result);
    }
    nodes_.push_back(std::move(node));
  }

  /// The types in the text are a claim; infer() settles it.
  void check_types(const Node& node, const std::vector<TensorType>& types, const Token& place) const {
    std::vector<TensorType> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(graph_.type(input));
    const std::vector<TensorType> inferred = located(place, [&] { return infer(node.op, node.attributes, inputs); });
    if (inferred.size() != types.size()) {
      Lexer::fail_at(place, fmt::format("{} has {} results, not {}", name_of(node.op), inferred.size(), types.size()));
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i].dtype == inferred[i].dtype && types[i].shape == inferred[i].shape) continue;
      Lexer::fail_at(place, fmt::format("{} makes {}{}, not {}{}", name_of(node.op), inferred[i].dtype,
                                        inferred[i].shape, types[i].dtype, types[i].shape));
    }
  }

  std::vector<ValueId> parse_operands(RegionId region) {
    std::vector<ValueId> operands;
    lexer_.expect('(');
    if (lexer_.accept(')')) return operands;
    do {
      operands.push_back(parse_reference(region));
    } while (lexer_.accept(','));
    lexer_.expect(')');
    return operands;
  }

  Attributes parse_attributes(Op op, const Token& place) {
    std::vector<std::pair<std::string_view, Attribute>> given;
    if (lexer_.accept('{') && !lexer_.accept('}')) {
      do {
        const Token name = lexer_.expect_name("an attribute");
        const auto& schemas = schema_of(op).attributes;
        const auto schema = std::ranges::find(schemas, std::string_view(name.text), &AttributeSchema::name);
        if (schema == schemas.end()) {
          Lexer::fail_at(name, fmt::format("{} has no attribute called \"{}\"", name_of(op), name.text));
        }
        lexer_.expect('=');
        given.emplace_back(schema->name, parse_attribute(schema->kind));
      } while (lexer_.accept(','));
      lexer_.expect('}');
    }
    return located(place, [&] { return Attributes(op, std::move(given)); });
  }

  Attribute parse_attribute(AttributeKind kind) {
    switch (kind) {
      case AttributeKind::kInt:
        return lexer_.expect_integer("an integer");
      case AttributeKind::kFloat:
        return lexer_.expect_number("a number");
      case AttributeKind::kInts:
        return parse_integers();
      case AttributeKind::kText:
        return lexer_.expect_string("text in quotes").text;
      case AttributeKind::kDType:
        return parse_dtype_name();
    }
    HR_CHECK(false);
  }

  std::vector<std::int64_t> parse_integers() {
    std::vector<std::int64_t> values;
    lexer_.expect('[');
    if (lexer_.accept(']')) return values;
    do {
      values.push_back(lexer_.expect_integer("an integer"));
    } while (lexer_.accept(','));
    lexer_.expect(']');
    return values;
  }

  DType parse_dtype_name() {
    const Token name = lexer_.expect_name("a dtype");
    const std::optional<DType> dtype = parse_dtype(name.text);
    if (!dtype) Lexer::fail_at(name, fmt::format("there is no dtype called \"{}\"", name.text));
    return *dtype;
  }

  TensorType parse_type() {
    const Token start = lexer_.peek();
    const DType dtype = parse_dtype_name();
    const std::vector<std::int64_t> extents = parse_integers();
    const bool positive = std::ranges::all_of(extents, [](std::int64_t extent) { return extent >= 1; });
    if (!positive || extents.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
      Lexer::fail_at(start, fmt::format("a shape has at most {} extents, all positive", Shape::kMaxRank));
    }
    return {dtype, Shape(extents), lexer_.accept_word("channels_last") ? Layout::kChannelsLast : Layout::kRowMajor};
  }

  static bool is_number(const Token& token) {
    return token.kind == TokenKind::kWord &&
           std::ranges::all_of(token.text, [](char c) { return c >= '0' && c <= '9'; });
  }

  Token parse_value_name() {
    lexer_.expect('%');
    return lexer_.expect_name("a value's name");
  }

  /// A value read in `region`: %7, %x, %"odd name", %state:latents.
  ValueId parse_reference(RegionId region) {
    const Token first = parse_value_name();
    const ValueId value = resolve(first);
    const auto home = homes_.find(value);
    if (home != homes_.end() && !is_within(graph_, region, home->second)) {
      Lexer::fail_at(first, fmt::format("%{} exists only inside its loop", first.text));
    }
    return value;
  }

  ValueId resolve(const Token& first) {
    if (first.kind == TokenKind::kWord && lexer_.accept(':')) {
      const Token name = lexer_.expect_name("a value's name");
      for (const ValueKind kind : kNamedKinds) {
        if (text_syntax::keyword_of(kind) != first.text) continue;
        const ValueId value = graph_.find(kind, name.text);
        if (value == kNoValue) Lexer::fail_at(name, fmt::format("there is no {} called \"{}\"", first.text, name.text));
        return value;
      }
      Lexer::fail_at(first, fmt::format("\"{}\" is not a kind of value", first.text));
    }
    if (is_number(first)) {
      const auto result = results_.find(first.text);
      if (result == results_.end()) Lexer::fail_at(first, fmt::format("%{} is not defined yet", first.text));
      return result->second;
    }
    ValueId found = kNoValue;
    for (const ValueKind kind : kNamedKinds) {
      const ValueId value = graph_.find(kind, first.text);
      if (value != kNoValue && found != kNoValue) {
        Lexer::fail_at(first,
                       fmt::format("several values are called \"{0}\"; say which kind, as in %input:{0}", first.text));
      }
      if (value != kNoValue) found = value;
    }
    if (found == kNoValue) Lexer::fail_at(first, fmt::format("there is no value called \"{}\"", first.text));
    return found;
  }

  static constexpr std::array kNamedKinds = {ValueKind::kInput, ValueKind::kParam, ValueKind::kState,
                                             ValueKind::kCounter};

  Lexer lexer_;
  Graph graph_;
  std::vector<Node> nodes_;
  std::map<std::string, ValueId, std::less<>> results_;  ///< by the number in the text
  std::map<ValueId, RegionId> homes_;                    ///< where results and counters exist
};

}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).run(); }

}  // namespace headroom
