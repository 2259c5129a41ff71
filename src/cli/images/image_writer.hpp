#pragma once

#include <filesystem>
#include <functional>
#include <future>

#include "media/image.hpp"
#include "media/png.hpp"

namespace headroom {

/// Writes PNGs one after the other, each while the caller makes the next.
class ImageWriter {
 public:
  ImageWriter() = default;
  /// Waits for the last write. Its exception is lost unless finish() was called.
  ~ImageWriter() = default;
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  /// Starts to write an image after the previous one is finished. Rethrows an exception of the previous one.
  void write(std::filesystem::path path, Image image, PngText text);
  /// The same. Also calls `then` from another thread when the image is written, or has failed with `error`. An
  /// exception of `then` is thrown by the next call.
  void write(std::filesystem::path path, Image image, PngText text, std::function<void(std::exception_ptr error)> then);
  /// Waits until all images are written. Rethrows an exception of the last one.
  void finish();

 private:
  std::future<void> last_;
};

}  // namespace headroom
