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
#include "ir/text/text.hpp"
#include "ir/text/text_syntax.hpp"

namespace headroom {
namespace {

using text_syntax::Lexer;
using text_syntax::Token;
using text_syntax::TokenKind;

/// A line `yield` of a region; the parent gets the result when the region ends.
struct Yield {
  Token number;
  std::optional<TensorType> type = {};  ///< omitted in an else
  ValueId from = kNoValue;
  std::optional<ValueId> otherwise = {};  ///< the value if an `if` without else does not run
  std::optional<Token> otherwise_place = {};
};

/// Recursive descent over the grammar in text.hpp. Values are looked up by the text that refers to them.
class Parser {
 public:
  explicit Parser(Lexer& lexer) : lexer_(lexer), graph_("") {}

  /// Parses one graph; more may follow.
  Graph run() {
    lexer_.expect_word("graph");
    graph_ = Graph(lexer_.expect_name("the graph's name").text);
    lexer_.expect('{');
    parse_region(kTopRegion);
    lexer_.expect('}');
    graph_.set_nodes(std::move(nodes_));
    return std::move(graph_);
  }

 private:
  /// Runs `action` and prefixes its errors with the position in the text.
  template <typename Action>
  static auto located(const Token& place, Action action) {
    try {
      return action();
    } catch (const std::exception& error) {  // Error, or std::logic_error for names used twice
      Lexer::fail_at(place, error.what());
    }
  }

  /// Returns what the region yields, in the order of the text.
  std::vector<Yield> parse_region(RegionId region) {
    std::vector<Yield> yields;
    while (!lexer_.at_symbol('}')) {
      const Token start = lexer_.peek();
      const bool top = region == kTopRegion;
      if (lexer_.at_symbol('%')) {
        parse_node(region);
      } else if (lexer_.accept_word("loop")) {
        parse_loop(region);
      } else if (lexer_.accept_word("if")) {
        parse_if(region);
      } else if (lexer_.accept_word("next")) {
        parse_next(region);
      } else if (!top && lexer_.accept_word("yield")) {
        yields.push_back(parse_yield(region));
      } else if (top && lexer_.accept_word("output")) {
        parse_output();
      } else if (top && lexer_.accept_word("block")) {
        const Token path = lexer_.expect_name("the path of a block");
        located(path, [&] { graph_.add_block(path.text); });
      } else if (top && lexer_.accept_word("input")) {
        parse_declaration(&Graph::add_input);
      } else if (top && lexer_.accept_word("param")) {
        parse_declaration(&Graph::add_param);
      } else if (top && lexer_.accept_word("state")) {
        parse_declaration(&Graph::add_state);
      } else if (start.kind == TokenKind::kEnd) {
        Lexer::fail_at(start, "expected \"}\", but found the end of the text");
      } else {
        Lexer::fail_at(start, fmt::format("expected a declaration, a node, a loop, an if or \"}}\", but found {}",
                                          text_syntax::quoted(start.text)));
      }
    }
    return yields;
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
    for (const Yield& yield : parse_block(loop)) {
      if (yield.otherwise) Lexer::fail_at(*yield.otherwise_place, "a loop yields one value, for it always runs");
      define_yield(yield, loop, kNoValue);
    }
  }

  void parse_if(RegionId parent) {
    const Token place = lexer_.peek();
    const ValueId predicate = parse_reference(parent);
    const RegionId then = graph_.add_then(parent, predicate);
    const std::vector<Yield> yields = parse_block(then);
    if (!lexer_.accept_word("else")) {
      for (const Yield& yield : yields) {
        if (!yield.otherwise)
          Lexer::fail_at(yield.number,
                         fmt::format("the if has no else, so %{} must say: else %value", yield.number.text));
        define_yield(yield, then, *yield.otherwise);
      }
      return;
    }
    const std::vector<Yield> others = parse_block(graph_.add_else(then));
    if (others.size() != yields.size()) Lexer::fail_at(place, "both branches of an if must yield the same values");
    for (std::size_t i = 0; i < yields.size(); ++i) {
      if (yields[i].number.text != others[i].number.text)
        Lexer::fail_at(others[i].number, fmt::format("the other branch yields %{} here", yields[i].number.text));
      if (yields[i].otherwise) Lexer::fail_at(*yields[i].otherwise_place, "the if has an else, which yields this");
      define_yield(yields[i], then, others[i].from);
    }
  }

  std::vector<Yield> parse_block(RegionId region) {
    lexer_.expect('{');
    std::vector<Yield> yields = parse_region(region);
    lexer_.expect('}');
    return yields;
  }

  /// `%9: f32[2] = %5`, in a then `%9: f32[2] = %5 else %3`, in an else `%9 = %5`.
  Yield parse_yield(RegionId region) {
    Yield yield{.number = parse_result_number()};
    if (lexer_.accept(':')) yield.type = parse_type();
    lexer_.expect('=');
    yield.from = parse_reference(region);
    const Region& it = graph_.region(region);
    if (!yield.type && it.kind != RegionKind::kElse) Lexer::fail_at(yield.number, "a result needs a type: %7: f32[2]");
    if (it.kind == RegionKind::kElse || !lexer_.accept_word("else")) return yield;
    yield.otherwise_place = lexer_.peek();
    yield.otherwise = parse_instead(region);
    return yield;
  }

  /// The value for a branch that does not run. For a state that the branch updates it is the former value.
  ValueId parse_instead(RegionId then) {
    const RegionId parent = graph_.region(then).parent;
    const ValueId value = parse_visible(parent);
    const bool is_updated_here = std::ranges::any_of(graph_.state_updates(), [&](const StateUpdate& update) {
      return update.value == value && is_within(graph_, update.region, then);
    });
    return is_updated_here ? value : graph_.read_after(value, parent);
  }

  void define_yield(const Yield& yield, RegionId region, ValueId otherwise) {
    for (const ValueId given : {yield.from, otherwise})
      if (given != kNoValue && graph_.type(given) != *yield.type)
        Lexer::fail_at(yield.number,
                       fmt::format("%{} is {}, not {}", yield.number.text, *yield.type, graph_.type(given)));
    define(yield.number, graph_.add_region_result(region, yield.from, otherwise), graph_.region(region).parent);
  }

  /// Binds the number in the text to a value, in `home` and the regions nested in it.
  void define(const Token& number, ValueId value, RegionId home) {
    if (!results_.emplace(number.text, value).second)
      Lexer::fail_at(number, fmt::format("%{} is defined twice", number.text));
    homes_[value] = home;
  }

  Token parse_result_number() {
    lexer_.expect('%');
    const Token number = lexer_.expect_name("the number of a result");
    if (!is_number(number)) Lexer::fail_at(number, "results are called by number: %7");
    return number;
  }

  void parse_next(RegionId region) {
    const Token place = lexer_.peek();
    const ValueId state = resolve(parse_value_name());
    if (graph_.value(state).kind != ValueKind::kState) Lexer::fail_at(place, "only a state has a next value");
    const auto clashes = [&](const StateUpdate& update) {
      return update.value == state && (update.region == region || graph_.region(region).branch != update.region);
    };
    if (std::ranges::any_of(graph_.state_updates(), clashes))
      Lexer::fail_at(place, "the state has a next value already");
    lexer_.expect('=');
    graph_.set_next(state, parse_reference(region), region);
  }

  void parse_output() {
    const Token name = lexer_.expect_name("the output's name");
    lexer_.expect('=');
    // Outputs are read at the very end, so the name of a state refers to its final value.
    const ValueId value = parse_visible(kTopRegion);
    located(name, [&] { graph_.add_output(name.text, value); });
  }

  void parse_node(RegionId region) {
    std::vector<Token> numbers;
    std::vector<TensorType> types;
    do {
      numbers.push_back(parse_result_number());
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
      node.results.push_back(graph_.add_result(types[i]));
      define(numbers[i], node.results.back(), region);
    }
    nodes_.push_back(std::move(node));
  }

  /// The types in the text are checked against infer().
  void check_types(const Node& node, const std::vector<TensorType>& types, const Token& place) const {
    std::vector<TensorType> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(graph_.type(input));
    const std::vector<TensorType> inferred = located(place, [&] { return infer(node.op, node.attributes, inputs); });
    if (inferred.size() != types.size()) {
      Lexer::fail_at(place, fmt::format("{} has {} results, not {}", name_of(node.op), inferred.size(), types.size()));
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i].dtype == inferred[i].dtype && types[i].shape == inferred[i].shape) continue;
      Lexer::fail_at(place, fmt::format("{} makes {}, not {}", name_of(node.op), inferred[i], types[i]));
    }
  }

  std::vector<ValueId> parse_operands(RegionId region) {
    std::vector<ValueId> operands;
    parse_list('(', ')', [&] { operands.push_back(parse_reference(region)); });
    return operands;
  }

  /// Parses a list of `parse_item`, in brackets, separated by commas.
  template <typename Item>
  void parse_list(char open, char close, Item parse_item) {
    lexer_.expect(open);
    if (lexer_.accept(close)) return;
    do {
      parse_item();
    } while (lexer_.accept(','));
    lexer_.expect(close);
  }

  Attributes parse_attributes(Op op, const Token& place) {
    NamedAttributes given;
    const auto parse_one = [&] {
      const Token name = lexer_.expect_name("an attribute");
      const AttributeSchema* const schema = schema_of(op).find(name.text);
      if (schema == nullptr)
        Lexer::fail_at(name, fmt::format("{} has no attribute called \"{}\"", name_of(op), name.text));
      lexer_.expect('=');
      given.emplace_back(schema->name, parse_attribute(schema->kind));
    };
    if (lexer_.at_symbol('{')) parse_list('{', '}', parse_one);
    return located(place, [&] { return Attributes(op, std::move(given)); });
  }

  /// "sum" or "add(e0, sum)", which Epilogue reads.
  std::string parse_epilogue(int depth = 0) {
    constexpr int kMostDepth = 64;  // Epilogue takes less
    const Token word = lexer_.expect_name("an epilogue");
    if (depth > kMostDepth) Lexer::fail_at(word, "the epilogue is nested too deep");
    if (!lexer_.at_symbol('(')) return word.text;
    std::string text = word.text + "(";
    parse_list('(', ')', [&] { text += (text.ends_with('(') ? "" : ", ") + parse_epilogue(depth + 1); });
    return text + ')';
  }

  Attribute parse_attribute(AttributeKind kind) {
    switch (kind) {
      case AttributeKind::kInt:
      case AttributeKind::kFlag:
        return lexer_.expect_integer("an integer");
      case AttributeKind::kFloat:
        return lexer_.expect_number("a number");
      case AttributeKind::kInts:
        return parse_integers();
      case AttributeKind::kText:
        if (lexer_.at_word("graph")) return canonical_text(Parser(lexer_).run());  // a body
        [[fallthrough]];
      case AttributeKind::kResizeMode:
      case AttributeKind::kDistribution:
        return lexer_.expect_string("text in quotes").text;
      case AttributeKind::kDType:
        return parse_dtype_name();
      case AttributeKind::kEpilogue:
        return parse_epilogue();
      case AttributeKind::kFloats: {
        std::vector<double> values;
        parse_list('[', ']', [&] { values.push_back(lexer_.expect_number("a number")); });
        return values;
      }
    }
    HR_CHECK(false);
  }

  std::vector<std::int64_t> parse_integers() {
    std::vector<std::int64_t> values;
    parse_list('[', ']', [&] { values.push_back(lexer_.expect_integer("an integer")); });
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
    if (!lexer_.accept_word("channels_last")) return {dtype, Shape(extents)};
    if (extents.size() != 4) Lexer::fail_at(start, "only an image, of four axes, can be channels_last");
    return {dtype, Shape(extents), Layout::kChannelsLast};
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
  ValueId parse_reference(RegionId region) { return graph_.read_after(parse_visible(region), region); }

  ValueId parse_visible(RegionId region) {
    const Token first = parse_value_name();
    const ValueId value = resolve(first);
    const auto home = homes_.find(value);
    if (home != homes_.end() && !is_within(graph_, region, home->second)) {
      Lexer::fail_at(first, fmt::format("%{} exists only inside its region", first.text));
    }
    return value;
  }

  ValueId resolve(const Token& first) {
    if (first.kind == TokenKind::kWord && lexer_.accept(':')) {
      const Token name = lexer_.expect_name("a value's name");
      for (const ValueKind kind : kNamedKinds) {
        if (name_of(kind) != first.text) continue;
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

  Lexer& lexer_;
  Graph graph_;
  std::vector<Node> nodes_;
  std::map<std::string, ValueId, std::less<>> results_;  ///< by the number in the text
  std::map<ValueId, RegionId> homes_;                    ///< where results and counters exist
};

}  // namespace

Graph parse_graph(std::string_view text) {
  Lexer lexer(text);
  Graph graph = Parser(lexer).run();
  if (lexer.peek().kind != TokenKind::kEnd) Lexer::fail_at(lexer.peek(), "nothing may follow the graph");
  return graph;
}

}  // namespace headroom
