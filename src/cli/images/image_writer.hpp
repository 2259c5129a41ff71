#pragma once

#include <filesystem>
#include <functional>
#include <future>

#include "media/image.hpp"
#include "media/png.hpp"

namespace headroom {

/// Writes PNGs one after the other, each while its caller makes the next.
class ImageWriter {
 public:
  ImageWriter() = default;
  /// Waits for the last one. What it may have thrown is lost without finish().
  ~ImageWriter() = default;
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  /// Begins to write an image, once the one before is there. Throws what that threw.
  void write(std::filesystem::path path, Image image, PngText text);
  /// The same, and calls `then` from another thread when it is there, or has failed with `error`; what
  /// `then` throws comes out of the next call.
  void write(std::filesystem::path path, Image image, PngText text, std::function<void(std::exception_ptr error)> then);
  /// Waits until all are there. Throws what writing the last one threw.
  void finish();

 private:
  std::future<void> last_;
};

}  // namespace headroom
