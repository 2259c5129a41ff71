#pragma once

#include <algorithm>
#include <chrono>
#include <headroom.hpp>
#include <random>
#include <vector>

/// Gives every input of the session's pass normal noise, the same in each program run.
inline void set_noise(headroom::Session& session) {
  std::mt19937 generator;
  std::normal_distribution<float> normal;
  for (const headroom::TensorInfo& input : session.pass().inputs()) {
    headroom::Tensor noise(input.dtype, input.shape);
    std::ranges::generate(noise.floats(), [&] { return normal(generator); });
    session.set_input(input.name, noise);
  }
}

/// The wall time of one run.
inline double run_ms(headroom::Session& session) {
  const auto start = std::chrono::steady_clock::now();
  session.run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// The middle one in order of size; of an even number the larger of the two.
inline double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}
