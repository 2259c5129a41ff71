#pragma once

#include <string>

#include "cli/commands/auto.hpp"
#include "cli/commands/bench_judging.hpp"
#include "cli/common.hpp"
#include "measure/statistics/trials.hpp"

namespace headroom {

/// What `bench` was given. MODEL may be a suite.
struct BenchArguments {
  ModelArguments model;
  SwitchArguments switches;
  RequestOptions request;  ///< its images are the samples of a pass
  ImageSize size;
  Protocol protocol;
  std::string pass;  ///< empty: the first
  bool first_step = false;
  bool cold = false;
  bool floors = false;
  int turns = 1;
  std::string save;
  std::string filter;
  bool list = false;
  bool as_json = false;
  BenchJudging judging;
};

/// Prints the names of the benchmarks of all suites, or of the one that is named, as far as the filter takes them.
void list_benchmarks(const BenchArguments& arguments);
/// `bench kernels`: times kernels by themselves, prints and saves.
void bench_kernel_suite(const BenchArguments& arguments);
/// `bench bodies`: times small graphs of plain ops as they are compiled, prints and saves.
void bench_body_suite(const BenchArguments& arguments);
/// `bench load`: times how fast weights reach the device, prints and saves.
void bench_load_suite(const BenchArguments& arguments);
/// Times one forward pass of MODEL in one configuration, prints and saves.
void bench_pass(const BenchArguments& arguments);
/// Times whole requests of MODEL, a pipeline, in one configuration, prints and saves.
void bench_requests(const BenchArguments& arguments);

void print_memory(const MemoryReport& memory);

}  // namespace headroom
