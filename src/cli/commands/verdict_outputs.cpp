#include "cli/commands/verdict_outputs.hpp"

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/text/quantity.hpp"
#include "cli/output_name.hpp"

namespace headroom {

CLI::Option* add_limit_option(CLI::App& command, std::string& limits) {
  return command
      .add_option("--limit", limits,
                  "smallest change for the worse that counts as a regression, by quantity: "
                  "memory=5%,size=2%,p99=10%,psnr=0.5dB,...; `off` ignores a quantity")
      ->type_name("LIST");
}

double threshold_of(const std::string& threshold, const Limits& limits) {
  if (threshold.empty()) return limits.of(Quantity::kTime);
  if (limits.is_asked(Quantity::kTime)) fail_usage("--threshold and --limit time are one limit; give one of the two");
  return parse_share(threshold, "--threshold");
}

void add_verdict_outputs(CLI::App& command, VerdictOutputs& outputs) {
  command.add_option("--markdown", outputs.markdown, "file for the verdicts in Markdown, such as for a pull request")
      ->check(written_as({".md"}))
      ->type_name("FILE");
  command.add_option("--junit", outputs.junit, "file for the verdicts as JUnit XML")
      ->check(written_as({".xml"}))
      ->type_name("FILE");
  command.add_flag("--annotations", outputs.annotations,
                   "also print failed and inconclusive verdicts as GitHub Actions annotations");
}

void check_verdict_outputs(const VerdictOutputs& outputs) {
  for (const std::string& path : {outputs.markdown, outputs.junit})
    if (!path.empty()) check_writable(path);
}

void write_verdict(const VerdictOutputs& outputs, std::span<const GateReport> reports, int descriptor) {
  if (!outputs.markdown.empty()) write_file_atomically(outputs.markdown, gate_markdown(reports));
  if (!outputs.junit.empty()) write_file_atomically(outputs.junit, gate_junit(reports));
  if (outputs.annotations) write_output(descriptor, gate_annotations(reports));
}

}  // namespace headroom
