#include "base/text/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json_events.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

std::string parse_error_of(std::string_view text) {
  return error_of([&] { (void)parse_json(text, "a.json"); });
}

TEST(ParseJson, ReadsADocument) {
  const json value = parse_json(R"( {"a": [1, -2, 0.5, true, null], "b": {"a": "\u00e9"}} )", "a.json");
  EXPECT_EQ(value["a"][1].get<int>(), -2);
  EXPECT_EQ(value["b"]["a"].get<std::string>(), "\xC3\xA9");
}

TEST(ParseJson, NamesTheDocumentAndThePlace) {
  EXPECT_EQ(parse_error_of("{\"a\": 1,\n \"b\": x}"),
            "a.json is not valid JSON at line 2, column 7: syntax error while parsing value - invalid literal; "
            "last read: '\"b\": x'");
  EXPECT_THAT(parse_error_of(""), StartsWith("a.json is not valid JSON at line 1, column 1: "));
  EXPECT_THAT(parse_error_of("{\"a\": 1"), HasSubstr("line 1, column 8: "));
  EXPECT_THAT(parse_error_of("{} {}"), HasSubstr("line 1, column 4: "));
  EXPECT_THAT(parse_error_of("{\"a\": NaN}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_error_of("{\"a\": 1e999}"), HasSubstr("number overflow"));
}

TEST(ParseJson, RefusesWhatTheLibraryLetsPass) {
  EXPECT_EQ(parse_error_of(std::string_view("{}\0junk", 7)),
            "a.json is not valid JSON at line 1, column 3: it holds a NUL byte");
  EXPECT_EQ(parse_error_of(R"({"a": 1, "b": {"a": 1, "c": 2, "c": 3}})"), "a.json repeats the key \"c\" in one object");
  EXPECT_EQ(parse_error_of(R"([{"a": 1}, {"a": 2, "a\u0000": 3}, {"a": {"a": 1}}])"), "(no error)");
}

/// Compares with the library's result for each text.
TEST(ParseJson, MakesWhatTheLibraryMakes) {
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  const std::function<json(int)> make = [&](int depth) -> json {
    switch (below(depth > 4 ? 6 : 8)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return -below(1000) - 1;
      case 3:
        return std::uint64_t{1} << below(64);
      case 4:
        return std::ldexp(1.0 + below(1000), below(200) - 100);
      case 5:
        return std::string(static_cast<std::size_t>(below(20)), static_cast<char>('a' + below(26))) + "\"\\\n\xC3\xA9";
      case 6: {
        json array = json::array();
        for (int i = below(5); i > 0; --i) array.push_back(make(depth + 1));
        return array;
      }
      default: {
        json object = json::object();
        for (int i = below(5); i > 0; --i) object[fmt::format("key {}", below(100))] = make(depth + 1);
        return object;
      }
    }
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string text = make(0).dump(below(3) - 1);
    const json value = parse_json(text, "a.json");
    EXPECT_EQ(value, json::parse(text));
    EXPECT_EQ(value.dump(), json::parse(text).dump()) << "types too";
  }
}

// Runs the fuzzer's seeds without a fuzzer.
TEST(ParseJson, ReadsOrRefusesTheFuzzSeeds) {
  int count = 0;
  for (const auto& seed : std::filesystem::directory_iterator(std::string(kSourceDir) + "/tests/fuzz/json")) {
    const std::string name = seed.path().filename();
    const std::string error = parse_error_of(read_file(seed.path()));
    EXPECT_EQ(error == "(no error)", name.starts_with("valid_")) << name << ": " << error;
    EXPECT_TRUE(is_utf8(error) && error.find('\n') == std::string::npos) << name;
    ++count;
  }
  EXPECT_GE(count, 20);
}

/// At these sizes, a parser that scans the parent at the end of each object takes minutes. tests/structure checks
/// that all sources use this parser.
TEST(ParseJson, ReadsManyObjectsInOne) {
  std::string array = "[";
  for (int i = 0; i < 300'000; ++i) array += i == 0 ? "{}" : ",{}";
  EXPECT_EQ(parse_json(array + "]", "a.json").size(), 300'000U);
  std::string object = "{";
  for (int i = 0; i < 100'000; ++i) object += fmt::format("{}\"{}\":{{\"a\":[{}]}}", i == 0 ? "" : ",", i, i);
  const json value = parse_json(object + "}", "a.json");
  EXPECT_EQ(value.size(), 100'000U);
  EXPECT_EQ(value["99999"]["a"][0].get<int>(), 99'999);
}

/// Counts events, and the memory kept for them.
struct EventCounter final : nlohmann::json::json_sax_t {
  int events = 0;
  bool count() {
    ++events;
    return true;
  }
  bool null() override { return count(); }
  bool boolean(bool /*value*/) override { return count(); }
  bool number_integer(number_integer_t /*value*/) override { return count(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return count(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return count(); }
  bool string(string_t& /*value*/) override { return count(); }
  bool binary(binary_t& /*value*/) override { return count(); }
  bool start_object(std::size_t /*elements*/) override { return count(); }
  bool key(string_t& /*value*/) override { return count(); }
  bool end_object() override { return count(); }
  bool start_array(std::size_t /*elements*/) override { return count(); }
  bool end_array() override { return count(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }
};

TEST(ReadJsonEvents, GivesEachPartOnce) {
  EventCounter counter;
  read_json_events(R"({"a": [1, -2, 0.5, true, null], "b": {"a": "x", "a": {}}})", "a.json", counter);
  EXPECT_EQ(counter.events, 2 + 1 + 7 + 1 + 2 + 2 + 3) << "a key that is repeated is the handler's to refuse";
  EXPECT_EQ(error_of([&] { read_json_events("[1,]", "a.json", counter); }), parse_error_of("[1,]"));
  EXPECT_EQ(error_of([&] { read_json_events(std::string(101, '['), "a.json", counter); }),
            "a.json is nested deeper than 100 levels");
}

TEST(JsonBuilder, MakesOneValueAfterAnother) {
  JsonBuilder builder("a.json");
  EXPECT_FALSE(builder.is_complete());
  builder.number_unsigned(7);
  EXPECT_TRUE(builder.is_complete());
  EXPECT_EQ(builder.take(), json(7));
  EXPECT_FALSE(builder.is_complete());
  builder.start_array(0);
  builder.start_object(0);
  builder.end_object();
  EXPECT_FALSE(builder.is_complete());
  builder.end_array();
  EXPECT_TRUE(builder.is_complete());
  EXPECT_EQ(builder.count(), 2U);
  EXPECT_EQ(builder.take(), json::parse("[{}]"));
  EXPECT_EQ(builder.count(), 0U);
}

TEST(ParseJson, RefusesDeepNesting) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(parse_error_of(nested(kMaxJsonDepth)), "(no error)");
  EXPECT_EQ(parse_error_of(nested(kMaxJsonDepth + 1)), "a.json is nested deeper than 100 levels");
  EXPECT_EQ(parse_error_of(std::string(1000000, '[')), "a.json is nested deeper than 100 levels");
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  EXPECT_EQ(parse_error_of(objects), "a.json is nested deeper than 100 levels");
}

TEST(ParseJson, MessagesStayShortAndPrintable) {
  const std::string error = parse_error_of("{\"a\": \"" + std::string(1000, 'x') + "\xFF\"}");
  EXPECT_THAT(error, StartsWith("a.json is not valid JSON at line 1, column 1008: "));
  EXPECT_LT(error.size(), 300U);
  for (const char c : parse_error_of("\"\xFF\x01\"")) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(ParseJson, AKeyOrValueInAMessageIsCutBetweenCharacters) {
  const std::string long_text = "a" + [] {
    std::string euros;
    for (int i = 0; i < 100; ++i) euros += "€";
    return euros;
  }();
  for (const std::string& error : {parse_error_of("{\"" + long_text + "\":1,\"" + long_text + "\":2}"), error_of([&] {
                                     (void)get_int(json{{"steps", long_text}}, "steps", "a.json");
                                   })}) {
    EXPECT_TRUE(is_utf8(error)) << error;
    EXPECT_THAT(error, HasSubstr("€...€"));
    EXPECT_LT(error.size(), 200U);
  }
}

TEST(ReadJson, NamesTheFile) {
  const TempFolder folder;
  write_file_atomically(folder / "a.json", "[1,]");
  EXPECT_THAT(error_of([&] { (void)read_json(folder / "a.json"); }),
              StartsWith((folder / "a.json").string() + " is not valid JSON at line 1, column 4: "));
  write_json(folder / "b.json", json{{"x", 1}});
  EXPECT_EQ(read_file(folder / "b.json"), "{\n  \"x\": 1\n}\n");
  EXPECT_EQ(read_json(folder / "b.json"), (json{{"x", 1}}));
}

TEST(DumpJson, RefusesWhatJsonCannotHold) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of([&] {
              (void)dump_json({{"runs", {{{"a/b", {1.0, std::nan("")}}}}}});
            }),
            "JSON cannot hold the value at \"/runs/0/a~1b/1\", nan; a finite number was expected");
  EXPECT_EQ(error_of([&] { (void)dump_json(-infinity); }),
            "JSON cannot hold the value at \"\", -inf; a finite number was expected");
  EXPECT_THAT(error_of([&] {
                (void)dump_json({{"a", "\xFF"}});
              }),
              StartsWith("JSON cannot hold a string that is not UTF-8: "));
  const TempFolder folder;
  EXPECT_THAT(error_of([&] { write_json(folder / "a.json", infinity); }),
              StartsWith("cannot write " + (folder / "a.json").string() + ": JSON cannot hold"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.json"));
}

TEST(DumpJson, EscapesWhatWouldSteerATerminal) {
  const json value = {{"\x1b[1m\n", "\x7f \xC2\x9B \xE2\x80\xAE é"}};
  const std::string text = dump_json(value, 1);
  EXPECT_EQ(text, "{\n \"\\u001b[1m\\n\": \"\\u007f \\u009b \\u202e é\"\n}");
  EXPECT_EQ(parse_json(text, ""), value);
}

TEST(DumpJson, NumbersReadBackExactly) {
  for (const double value : {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 123456789.125}) {
    const json back = parse_json(dump_json(value), "");
    EXPECT_EQ(back.get<double>(), value);
    EXPECT_EQ(std::signbit(back.get<double>()), std::signbit(value));
  }
}

class Getters : public testing::Test {
 protected:
  const json value_ = parse_json(
      R"({"int": 7, "negative": -7, "big": 18446744073709551615, "real": 0.5, "whole": 2.0, "yes": true,
          "text": "hi", "null": null, "list": [1, 2, 3], "mixed": [1, 2.5], "object": {}})",
      "config.json");
  std::string error(auto function, std::string_view key) const {
    return error_of([&] { (void)function(value_, key, "config.json"); });
  }
};

TEST_F(Getters, ReadValues) {
  EXPECT_EQ(get_int(value_, "int", ""), 7);
  EXPECT_EQ(get_int(value_, "negative", ""), -7);
  EXPECT_EQ(get_double(value_, "real", ""), 0.5);
  EXPECT_EQ(get_double(value_, "int", ""), 7.0);
  EXPECT_TRUE(get_bool(value_, "yes", ""));
  EXPECT_EQ(get_string(value_, "text", ""), "hi");
  EXPECT_EQ(get_int_array(value_, "list", ""), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_TRUE(get(value_, "object", "").is_object());
}

TEST_F(Getters, NameTheKeyTheValueAndWhatWasExpected) {
  EXPECT_EQ(error(get_int, "width"), "config.json has no \"width\"");
  EXPECT_EQ(error(get_int, "real"), "\"real\" in config.json is 0.5, but a 64-bit integer was expected");
  EXPECT_EQ(error(get_int, "whole"), "\"whole\" in config.json is 2.0, but a 64-bit integer was expected");
  EXPECT_EQ(error(get_int, "yes"), "\"yes\" in config.json is true, but a 64-bit integer was expected");
  EXPECT_EQ(error(get_int, "big"), "\"big\" in config.json is 18446744073709551615, but a 64-bit integer was expected");
  EXPECT_EQ(error(get_int, "null"), "\"null\" in config.json is null, but a 64-bit integer was expected");
  EXPECT_EQ(error(get_double, "text"), "\"text\" in config.json is \"hi\", but a number was expected");
  EXPECT_EQ(error(get_bool, "int"), "\"int\" in config.json is 7, but true or false was expected");
  EXPECT_EQ(error(get_string, "list"), "\"list\" in config.json is an array, but a string was expected");
  EXPECT_EQ(error(get_int_array, "int"), "\"int\" in config.json is 7, but an array of integers was expected");
  EXPECT_EQ(error(get_int_array, "mixed"), "\"mixed[1]\" in config.json is 2.5, but a 64-bit integer was expected");
  EXPECT_EQ(error_of([] { (void)get_int(json::array(), "a", "config.json"); }),
            "config.json is an array, but an object was expected");
}

TEST_F(Getters, FallBackOnlyWhereTheKeyIsMissingOrNull) {
  EXPECT_EQ(get_int_or(value_, "width", 3, ""), 3);
  EXPECT_EQ(get_int_or(value_, "null", 3, ""), 3);
  EXPECT_EQ(get_int_or(value_, "int", 3, ""), 7);
  EXPECT_EQ(get_double_or(value_, "width", 0.25, ""), 0.25);
  EXPECT_EQ(get_double_or(value_, "real", 0.25, ""), 0.5);
  EXPECT_TRUE(get_bool_or(value_, "width", true, ""));
  EXPECT_TRUE(get_bool_or(value_, "yes", false, ""));
  EXPECT_EQ(get_string_or(value_, "width", "x", ""), "x");
  EXPECT_EQ(get_string_or(value_, "text", "x", ""), "hi");
  EXPECT_EQ(error_of([&] { (void)get_int_or(value_, "text", 3, "config.json"); }),
            "\"text\" in config.json is \"hi\", but a 64-bit integer was expected");
  EXPECT_EQ(error_of([] { (void)get_int_or(json(3), "a", 3, "config.json"); }),
            "config.json is an integer, but an object was expected");
}

}  // namespace
}  // namespace headroom
