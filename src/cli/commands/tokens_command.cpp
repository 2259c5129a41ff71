#include <memory>
#include <nlohmann/json.hpp>

#include "base/files/file.hpp"
#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/number.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "io/token_file.hpp"
#include "text/bpe_trainer.hpp"
#include "train/tokenize_files.hpp"

namespace headroom {
namespace {

struct TokensArguments {
  std::vector<std::string> files;
  std::string out, tokenizer;
  std::int64_t vocabulary = 0;
  double validation = 0;
  bool as_json = false, quiet = false;
};

void make_tokens(const TokensArguments& arguments) {
  if (arguments.tokenizer.empty() == (arguments.vocabulary == 0))
    fail_usage("tokens needs either --tokenizer DIR, or --vocabulary N to train one");
  if (is_standard_output(arguments.out)) fail_usage("--out -: tokens are kept in a file, with others next to it");
  if (arguments.validation >= 1) fail_usage("--validation is {}, expected a share below 1", arguments.validation);
  TokenizeRequest request{.files = {arguments.files.begin(), arguments.files.end()},
                          .out = arguments.out,
                          .vocabulary = arguments.vocabulary,
                          .validation = arguments.validation};
  if (!arguments.tokenizer.empty()) request.tokenizer = arguments.tokenizer;
  if (request.out.has_parent_path()) make_folder(request.out.parent_path());
  Progress progress("reading", 1, arguments.quiet);
  const Interruptible until_written;  // on an interruption, removes partial files before the program ends
  const TokenizedFiles made = tokenize_files(request, [&](std::int64_t done, std::int64_t total) {
    Interruptible::check();
    if (done == 1) progress.begin("reading", total);
    progress.set(done);
  });
  const auto files = std::ssize(arguments.files);
  if (arguments.as_json) {
    nlohmann::json summary = {{"out", arguments.out},
                              {"files", files},
                              {"bytes", made.bytes},
                              {"tokens", made.tokens},
                              {"vocabulary", made.vocabulary},
                              {"hash", made.hash},
                              {"validation_tokens", made.validation_tokens}};
    if (!made.validation.empty()) summary["validation"] = made.validation.native();
    if (!made.tokenizer.empty()) summary["tokenizer"] = made.tokenizer.native();
    print_out("{}\n", dump_json(summary, 2));
    return;
  }
  if (!made.tokenizer.empty())
    print_out("wrote {}: {}\n", made.tokenizer.native(), format_count(made.vocabulary, "token"));
  if (!made.validation.empty())
    print_out("wrote {}: {}\n", made.validation.native(), format_count(made.validation_tokens, "token"));
  print_out("wrote {}: {}; hash {}\n", arguments.out, format_count(made.tokens, "token"), made.hash);
  const std::int64_t tokens = made.tokens + made.validation_tokens;
  print_out("{} of text in {}: {}, {} bytes a token\n", format_bytes(static_cast<std::uint64_t>(made.bytes)),
            format_count(files, "file"), format_count(tokens, "token"),
            format_significant(static_cast<double>(made.bytes) / static_cast<double>(tokens)));
}

}  // namespace

void add_tokens_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokens", "turn text files into the tokens that `train` reads");
  const auto arguments = std::make_shared<TokensArguments>();
  command->add_option("FILES", arguments->files, "text files in UTF-8, each one document")
      ->required()
      ->type_name("FILES");
  command->add_option("--out", arguments->out, "file of tokens to write, in llm.c's format")
      ->check(written_as({".bin"}, Dash::kTaken))
      ->required()
      ->type_name("FILE");
  command->add_option("--tokenizer", arguments->tokenizer, "folder of the tokenizer to use")->type_name("DIR");
  command
      ->add_option("--vocabulary", arguments->vocabulary,
                   "train a byte-pair vocabulary of N tokens on the files, written as tokenizer.json next to FILE")
      ->check(whole_number(kBpeBaseTokens, TokenFile::kMostIds))
      ->type_name("N");
  command
      ->add_option("--validation", arguments->validation,
                   "share of each file, its end, that is written to a file of its own, NAME.val.bin")
      ->transform(share())
      ->type_name("SHARE");
  command->add_flag("--json", arguments->as_json, "machine-readable summary");
  command->add_flag("-q,--quiet", arguments->quiet, "no progress");
  command->footer(
      "Examples: headroom tokens docs/*.md --vocabulary 1024 --validation 5% --out data.bin\n"
      "          headroom tokens corpus/*.txt --tokenizer gpt2 --out data.bin");
  command->callback([arguments] { make_tokens(*arguments); });
}

}  // namespace headroom
