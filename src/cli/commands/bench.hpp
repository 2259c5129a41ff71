#pragma once

#include <string>

#include "cli/commands/auto.hpp"
#include "cli/commands/bench_judging.hpp"
#include "cli/common.hpp"
#include "measure/statistics/trials.hpp"
#include "measure/suites/attention_suite.hpp"
#include "measure/work/bench.hpp"

namespace headroom {

/// The arguments of `bench`. MODEL may be a suite.
struct BenchArguments {
  ModelArguments model;
  SwitchArguments switches;
  RequestOptions request;  ///< its images are the samples of a pass
  ImageSize size;
  TokenSize reference;  ///< {0, 0}: no image
  Protocol protocol;
  std::string pass;  ///< empty: the first pass
  bool first_step = false;
  bool cold = false;
  bool floors = false;
  int rounds = 1;
  std::string save;
  std::string filter;
  AttentionBenchOptions attention;  ///< its ranks: 0 for the GPUs of the device
  bool list = false;
  bool as_json = false;
  BenchJudging judging;
};

/// Prints the names of the benchmarks that match the filter, of all suites or of the named one.
void list_benchmarks(const BenchArguments& arguments);
/// `bench kernels`: times single kernels, prints and saves the results.
void bench_kernel_suite(const BenchArguments& arguments);
/// `bench bodies`: times small graphs of plain ops as compiled, prints and saves the results.
void bench_body_suite(const BenchArguments& arguments);
/// `bench load`: times loading weights onto the device, prints and saves the results.
void bench_load_suite(const BenchArguments& arguments);
/// `bench attention`: times attention on one rank and on several, prints and saves the results.
void bench_attention_suite(const BenchArguments& arguments);
/// Times one forward pass of MODEL in one configuration, prints and saves the result.
void bench_pass(const BenchArguments& arguments);
/// Times whole requests of MODEL, a pipeline, in one configuration, prints and saves the result.
void bench_requests(const BenchArguments& arguments);

}  // namespace headroom
