#include "cli/images/serve_prompts.hpp"

#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/failure.hpp"
#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "base/text/utf8.hpp"
#include "cli/commands/computed_steps.hpp"
#include "cli/images/image_maker.hpp"
#include "cli/images/image_text.hpp"
#include "cli/images/image_writer.hpp"
#include "cli/images/request_lines.hpp"

namespace headroom {
namespace {

/// Prints one line of the answer, as valid JSON for any names and texts.
void answer(const nlohmann::json& line) { print_out("{}\n", dump_json(line)); }

/// A sentence that JSON can hold: file names may be invalid UTF-8.
nlohmann::json as_text(std::string_view sentence) { return well_formed(sentence); }

/// Throws Error for a file that a request must not name: reading a pipe or a device may never end.
void require_readable(const std::string& file, std::string_view key, const std::string& context) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail_usage("{}: {} is {}, expected a regular file", context, key, file);
}

class Server {
 public:
  Server(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first,
         const ImageJob& defaults, const WithoutEffect& without_effect)
      : engine_(engine),
        switches_(switches),
        defaults_(defaults),
        without_effect_(without_effect),
        maker_(engine, switches, memory_limit, after_the_first) {}

  /// Processes one request; a failure is answered with its reason.
  void serve(const std::string& line, const std::string& context) {
    nlohmann::json reply = nlohmann::json::object();
    try {
      const nlohmann::json request = parse_json(line, context);
      if (request.is_object() && request.contains("id")) reply["id"] = request.at("id");
      make(request, context, reply);
    } catch (const std::exception& error) {  // including lack of memory: the next request may need less
      refuse(std::move(reply), sentence_of(error));
    }
  }
  /// Answers that a request was not processed.
  void refuse(nlohmann::json reply, const std::string& sentence) {
    writer_.finish();  // keeps answers in the order of requests
    reply["error"] = as_text(sentence);
    answer(reply);
  }
  void finish() { writer_.finish(); }

 private:
  /// A sentence for each named switch that declines, and for each key without effect.
  std::vector<std::string> find_without_effect(const nlohmann::json& request, const PreparedImage& prepared) {
    std::vector<std::string> sentences;
    for (const Declined& declined : maker_.generator({&prepared, 1}).compiled().declined)
      if (without_effect_.is_named(declined.switch_name))
        sentences.push_back(fmt::format("switch {} declined: {}", declined.switch_name, declined.reason));
    for (const IdleOption& option : engine_.pipeline->idle_options(prepared.options, prepared.image))
      sentences.push_back(fmt::format("{} changes nothing: {}", option.name, option.reason));
    if (request.contains("seed") && is_seed_idle(*engine_.pipeline, prepared))
      sentences.emplace_back("seed changes nothing: the noise is given, and the sampler draws none");
    if (request.contains("label") && prepared.image.prompt)
      sentences.emplace_back("label changes nothing: the prompt is used");
    return sentences;
  }

  void make(const nlohmann::json& request, const std::string& context, nlohmann::json reply) {
    const ImageJob job = with_json(defaults_, request, {"id", "out"}, context);
    if (!job.prompt && engine_.pipeline->labels().empty())
      fail_usage("{}: {} has no labels and needs a prompt", context, engine_.pipeline->name());
    const std::filesystem::path out = get_string(request, "out", context);
    if (out.extension() != ".png")
      fail_usage("{}: out is {}, expected a name that ends in .png", context, out.string());
    if (std::filesystem::exists(out) && !std::filesystem::is_regular_file(out))
      fail_usage("{}: out is {}, expected a new file or a regular one", context, out.string());
    check_writable(out);
    for (const std::string& image : job.images) require_readable(image, "image", context);
    require_readable(job.noise, "noise", context);
    for (const LoraUse& use : job.loras) require_readable(use.file, "a file of loras", context);
    const PreparedImage prepared = prepare(*engine_.pipeline, job, switches_);
    std::vector<std::string> notes = find_without_effect(request, prepared);
    if (without_effect_.is_strict() && !notes.empty()) fail("--strict: {}", fmt::join(notes, "; "));
    MadeImages made = maker_.make({&prepared, 1});
    reply["out"] = out.string();
    reply["seed"] = job.seed;
    const std::vector<std::string> cut = tell_cut_texts(*engine_.pipeline, prepared);
    notes.insert(notes.end(), cut.begin(), cut.end());
    notes.insert(notes.end(), maker_.notes().begin(), maker_.notes().end());
    for (const std::string& note : notes) reply["notes"].push_back(as_text(note));
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
                      reply["error"] = as_text(sentence_of(error));
                    }
                    answer(reply);
                  });
  }

  const Engine& engine_;
  const SwitchSet& switches_;
  const ImageJob& defaults_;
  const WithoutEffect& without_effect_;
  ImageMaker maker_;
  ImageWriter writer_;
};

}  // namespace

void serve_prompts(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first,
                   const ImageJob& defaults, const WithoutEffect& without_effect) {
  Server server(engine, switches, memory_limit, after_the_first, defaults, without_effect);
  std::size_t number = 0;
  std::string line;
  for (RequestLine read = read_request_line(std::cin, line); read != RequestLine::kEnd;
       read = read_request_line(std::cin, line)) {
    const std::string context = fmt::format("line {} of the input", ++number);
    if (read == RequestLine::kTooLong) {
      server.refuse(nlohmann::json::object(),
                    fmt::format("{} is longer than {} bytes, the most for a request", context, kMostRequestBytes));
      continue;
    }
    if (number == 1) line.erase(0, line.size() - without_byte_order_mark(line).size());
    if (line.find_first_not_of(" \t\r") != std::string::npos) server.serve(line, context);
  }
  server.finish();
}

}  // namespace headroom
