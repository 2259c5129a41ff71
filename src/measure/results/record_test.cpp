#include "measure/results/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_util.hpp"
#include "measure/results/result_records.hpp"

namespace headroom::records {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Range {
  double low = 0, high = 0;
  friend bool operator==(const Range&, const Range&) = default;
};
struct Sample {
  std::string name;
  std::optional<double> share;
  std::vector<std::int64_t> counts;
  std::vector<Range> ranges;
  std::optional<Range> whole;
  bool drops = false;
  double width = 0;
  friend bool operator==(const Sample&, const Sample&) = default;
};

const Record<Range>& range_record() {
  static const Record<Range> record =
      Record<Range>("range").member("low", &Range::low, number()).member("high", &Range::high, number());
  return record;
}

const Record<Sample>& sample_record() {
  static const Record<Range> whole =
      Record<Range>("whole").member("from", &Range::low, number()).member("to", &Range::high, number());
  static const Record<Sample> record =
      Record<Sample>("sample", "What is tested.")
          .constant("unit", "ms")
          .member("name", &Sample::name, text(), "Its name.")
          .derived("initial", [](const Sample& sample) { return sample.name.substr(0, 1); }, {{"type", "string"}})
          .member("share", &Sample::share, number(kShare))
          .member_unless_default("counts", &Sample::counts, list(records::whole(), 1))
          .member("ranges", &Sample::ranges, list(object(range_record())))
          .part(&Sample::whole, whole)
          .member("late", &Sample::drops, choice<bool>({{"wait", false}, {"drop", true}}))
          .group(Record<Sample>("size").member("width", &Sample::width, number(kNotNegative)));
  return record;
}

Sample full_sample() {
  return {.name = "fox",
          .share = 0.5,
          .counts = {1, 2},
          .ranges = {{1, 2}, {3, 4}},
          .whole = Range{5, 6},
          .drops = true,
          .width = 7};
}

TEST(Record, WritesWhatIsThereAndReadsItBack) {
  EXPECT_EQ(sample_record().write(full_sample()), json::parse(R"({
    "unit": "ms", "name": "fox", "initial": "f", "share": 0.5, "counts": [1, 2],
    "ranges": [{"low": 1.0, "high": 2.0}, {"low": 3.0, "high": 4.0}],
    "from": 5.0, "to": 6.0, "late": "drop", "size": {"width": 7.0}})"));
  EXPECT_EQ(sample_record().read(sample_record().write(full_sample()), "a.json"), full_sample());
  Sample sparse;
  sparse.name = "x";
  EXPECT_EQ(sample_record().write(sparse), json::parse(R"({
    "unit": "ms", "name": "x", "initial": "x", "ranges": [], "late": "wait", "size": {"width": 0.0}})"));
  EXPECT_EQ(sample_record().read(sample_record().write(sparse), "a.json"), sparse);
}

TEST(Record, NamesTheMemberTheValueAndThePlace) {
  const auto error_with = [](const std::string& pointer, const json& value) {
    json document = sample_record().write(full_sample());
    document[json::json_pointer(pointer)] = value;
    return error_of([&] { (void)sample_record().read(document, "a.json"); });
  };
  EXPECT_EQ(error_with("/unit", "s"), R"("unit" in a.json is "s", but one of ms was expected)");
  EXPECT_EQ(error_with("/name", ""), R"("name" in a.json is "", but a string that is not empty was expected)");
  EXPECT_EQ(error_with("/initial", "g"), R"(the initial of a.json is "g", but 'f' follows from its other members)");
  EXPECT_EQ(error_with("/share", nullptr), R"("share" in a.json is null, but a number from 0 to 1 was expected)");
  EXPECT_EQ(error_with("/counts/1", -1),
            R"("counts"[1] in a.json is -1, but a 64-bit integer of at least 0 was expected)");
  EXPECT_EQ(error_with("/counts", json::array()), R"("counts" in a.json has 0 entries, but at least 1 was expected)");
  EXPECT_EQ(error_with("/ranges", 3), R"("ranges" in a.json is number, but an array was expected)");
  EXPECT_EQ(error_with("/ranges/1", 3), "range 1 of a.json is number, but an object was expected");
  EXPECT_EQ(error_with("/ranges/1/high", "x"), R"("high" in range 1 of a.json is "x", but a number was expected)");
  EXPECT_EQ(error_with("/late", "hope"), R"("late" in a.json is "hope", but one of wait, drop was expected)");
  EXPECT_EQ(error_with("/size/width", -1),
            R"("width" in the size of a.json is -1, but a number from 0 to 1e30 was expected)");
  EXPECT_THAT(error_with("/colour", 3), HasSubstr("unknown member \"colour\""));
  EXPECT_THAT(error_with("/size/depth", 3), HasSubstr("unknown member \"depth\""));
}

TEST(Record, MissesWhatMustBeThere) {
  for (const char* key : {"unit", "name", "initial", "ranges", "from", "to", "late", "size"}) {
    json document = sample_record().write(full_sample());
    document.erase(key);
    EXPECT_THAT(error_of([&] { (void)sample_record().read(document, "a.json"); }),
                AllOf(HasSubstr("a.json"), HasSubstr("\"" + std::string(key) + "\"")));
  }
}

TEST(Record, DescribesItselfAsAJsonSchema) {
  Schema definitions = Schema::object();
  const Schema schema = sample_record().schema(definitions);
  EXPECT_EQ(json(schema), json::parse(R"({
    "description": "What is tested.", "type": "object", "additionalProperties": false,
    "required": ["unit", "name", "initial", "ranges", "late", "size"],
    "dependentRequired": {"from": ["to"], "to": ["from"]},
    "properties": {
      "unit": {"const": "ms"},
      "name": {"description": "Its name.", "$ref": "#/$defs/text"},
      "initial": {"type": "string"},
      "share": {"type": "number", "minimum": 0.0, "maximum": 1.0},
      "counts": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
      "ranges": {"type": "array", "items": {"$ref": "#/$defs/range"}},
      "from": {"type": "number"}, "to": {"type": "number"},
      "late": {"enum": ["wait", "drop"]},
      "size": {"type": "object", "additionalProperties": false, "required": ["width"],
               "properties": {"width": {"type": "number", "minimum": 0.0, "maximum": 1e30}}}}})"));
  EXPECT_TRUE(definitions.contains("text"));
  EXPECT_EQ(json(definitions["range"]), json::parse(R"({
    "type": "object", "additionalProperties": false, "required": ["low", "high"],
    "properties": {"low": {"type": "number"}, "high": {"type": "number"}}})"));
}

Machine complete_machine() {
  Machine machine = describe_machine();
  machine.cpu_max_mhz = 2600;
  machine.cpu_governor = "schedutil";
  machine.gpus = {{"NVIDIA A", "1.2"}, {"NVIDIA B", std::nullopt}};
  return machine;
}

TEST(MachineRecord, RoundTripsThroughJson) {
  const Machine machine = complete_machine();
  EXPECT_EQ(machine_record().read(machine_record().write(machine), "test"), machine);
  Machine sparse;
  sparse.cpu = "A CPU";
  sparse.logical_cores = 2;
  sparse.allowed_cores = 1;
  sparse.os = "an OS";
  sparse.kernel = "a kernel";
  EXPECT_EQ(machine_record().read(machine_record().write(sparse), "test"), sparse);
}

TEST(MachineRecord, RefusesWrongMembersByName) {
  const auto error_of_read = [](const json& document) {
    return error_of([&] { (void)machine_record().read(document, "file.json"); });
  };
  const json good = machine_record().write(complete_machine());
  json document = good;
  document.erase("cpu");
  EXPECT_THAT(error_of_read(document), AllOf(HasSubstr("file.json"), HasSubstr("cpu")));
  document = good;
  document["hostname"] = "secret";
  EXPECT_THAT(error_of_read(document), HasSubstr("hostname"));
  document = good;
  document["build"]["optimized"] = "yes";
  EXPECT_THAT(error_of_read(document), HasSubstr("optimized"));
  document = good;
  document["cpu_max_mhz"] = nullptr;
  EXPECT_THAT(error_of_read(document), HasSubstr("cpu_max_mhz"));
}

}  // namespace
}  // namespace headroom::records
