#pragma once

#include <string>

#include "tune/tuner.hpp"

namespace headroom::cuda {

/// The version of the NVIDIA driver: "580.65.06", or the CUDA version that it supports where it does not say.
[[nodiscard]] std::string driver_version();

/// As tune::FillRandom.
void fill_random(Stream& stream, DType dtype, DevicePointer memory, std::size_t bytes);

/// The tuner of the library that kLibrary() names with its version, one for each device: Backend::context.
template <std::string (*kLibrary)()>
struct TunerOf : tune::Tuner {
  explicit TunerOf(Backend& backend) : Tuner(backend, driver_version(), kLibrary(), fill_random) {}
};

}  // namespace headroom::cuda
