// survey_library SONAME FUNCTION: prints, a line each, the file that the loader takes and its version, and the findings
// of the checks of libraries. Tests run it with environments of their own, which the loader reads when a process begins.

#include <cstdio>
#include <string>

#include "doctor/checks.hpp"

int main(int argc, char** argv) {
  using namespace headroom::doctor;
  if (argc != 3) return 2;
  MachineFacts facts;
  facts.libraries.push_back(survey_library({.name = "cuBLASLt",
                                            .soname = argv[1],
                                            .version_function = argv[2],
                                            .used_for = "matmuls",
                                            .package = "nvidia-cublas"}));
  const LibraryFacts& library = facts.libraries.front();
  std::printf("%s\n", library.taken ? library.taken->path.c_str() : "none");
  for (const Finding& finding : run_checks(machine_checks(), facts))
    std::printf("%s|%s|%s|%s\n", finding.id.c_str(), finding.sentence.c_str(), finding.evidence.front().value.c_str(),
                finding.mend.c_str());
  return 0;
}
