#include "measure/results/result_json.hpp"

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/results/json_members.hpp"
#include "measure/results/result_records.hpp"

namespace headroom {

nlohmann::json to_json(const ResultFile& file) {
  check_results(file);
  nlohmann::json document = records::result_file_record({}).write(file);
  (void)dump_json(document);  // rejects NaN, infinity and broken UTF-8, naming the place
  return document;
}

ResultFile results_from_json(const nlohmann::json& json, std::string_view context,
                             const std::filesystem::path& folder) {
  check_printable(json, context);
  // Checked first: another version may differ in every other member.
  if (const std::string schema = get_text(json, "schema", context); schema != kResultSchema) {
    fail("{} has schema '{}'; this program reads '{}'", context, schema, kResultSchema);
  }
  ResultFile file = records::result_file_record(folder).read(json, std::string(context));
  try {
    check_results(file);
    check_created(file.created);
    for (Result& result : file.results) recompute_statistics(result);
  } catch (const Error& error) {
    fail("{} is inconsistent: {}", context, error.what());
  }
  return file;
}

nlohmann::ordered_json result_schema() {
  using records::Schema;
  Schema definitions = Schema::object();
  const Schema file = records::result_file_record({}).schema(definitions);
  Schema schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", kResultSchema}};
  schema.update(file);
  schema["$defs"] = std::move(definitions);
  return schema;
}

}  // namespace headroom
