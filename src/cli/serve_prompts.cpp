#include "cli/serve_prompts.hpp"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/output.hpp"
#include "cli/computed_steps.hpp"
#include "cli/image_maker.hpp"
#include "cli/image_text.hpp"
#include "cli/image_writer.hpp"

namespace headroom {
namespace {

/// One line of the answer.
void answer(const nlohmann::json& line) { print_out("{}\n", line.dump()); }

std::string sentence_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& what) {
    return what.what();
  }
}

class Server {
 public:
  Server(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first,
         const ImageJob& defaults)
      : engine_(engine),
        switches_(switches),
        defaults_(defaults),
        maker_(engine, switches, memory_limit, after_the_first) {}

  /// Does one request; what cannot be done is answered with its reason.
  void serve(const std::string& line, const std::string& context) {
    nlohmann::json reply = nlohmann::json::object();
    try {
      const nlohmann::json request = parse_json(line, context);
      if (request.is_object() && request.contains("id")) reply["id"] = request.at("id");
      make(request, context, reply);
    } catch (const Error& error) {
      writer_.finish();  // answers are in the order of requests
      reply["error"] = error.what();
      answer(reply);
    }
  }
  void finish() { writer_.finish(); }

 private:
  void make(const nlohmann::json& request, const std::string& context, nlohmann::json reply) {
    const ImageJob job = with_json(defaults_, request, {"id", "out"}, context);
    const std::filesystem::path out = get_string(request, "out", context);
    if (out.extension() != ".png")
      fail_usage("{}: out is {}, expected a name that ends in .png", context, out.string());
    check_writable(out);
    const PreparedImage prepared = prepare(*engine_.pipeline, job);
    MadeImages made = maker_.make({&prepared, 1});
    reply["out"] = out.string();
    reply["seed"] = job.seed;
    std::vector<std::string> notes = tell_cut_texts(*engine_.pipeline, prepared);
    notes.insert(notes.end(), maker_.notes().begin(), maker_.notes().end());
    if (!notes.empty()) reply["notes"] = notes;
    if (!made.computed_steps.empty()) reply["computed_steps"] = numbers_of({&made.computed_steps, 1}).front();
    double total_ms = 0;
    for (const StageRun& stage : made.stages) {
      reply["stages"].push_back({{"name", stage.name}, {"ms", stage.milliseconds}});
      total_ms += stage.milliseconds;
    }
    reply["ms"] = total_ms;
    writer_.write(out, std::move(made.images.front()), request_text(engine_, switches_, job),
                  [reply = std::move(reply)](const std::exception_ptr& error) mutable {
                    if (error) {
                      for (const char* key : {"out", "seed", "notes", "computed_steps", "stages", "ms"})
                        reply.erase(key);
                      reply["error"] = sentence_of(error);
                    }
                    answer(reply);
                  });
  }

  const Engine& engine_;
  const SwitchSet& switches_;
  const ImageJob& defaults_;
  ImageMaker maker_;
  ImageWriter writer_;
};

}  // namespace

void serve_prompts(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first,
                   const ImageJob& defaults) {
  Server server(engine, switches, memory_limit, after_the_first, defaults);
  std::size_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    server.serve(line, "line " + std::to_string(number) + " of the input");
  }
  server.finish();
}

}  // namespace headroom
