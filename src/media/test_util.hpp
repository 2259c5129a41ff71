#pragma once

#include <cstdint>

#include "media/image.hpp"

/// Utilities for tests of images; included by *_test.cpp only.
namespace headroom::test {

/// An image in which each byte differs from its neighbours.
[[nodiscard]] inline Image pattern(int width, int height, int channels) {
  Image image = make_image(width, height, channels);
  int i = 0;
  for (std::uint8_t& byte : image.pixels) byte = static_cast<std::uint8_t>(i++ * 37 % 256);
  return image;
}

[[nodiscard]] inline Image on_three_channels(const Image& gray) {
  Image image{.width = gray.width, .height = gray.height, .channels = 3, .pixels = {}};
  for (const std::uint8_t level : gray.pixels) image.pixels.insert(image.pixels.end(), 3, level);
  return image;
}

}  // namespace headroom::test
