#include "cli/images/image_writer.hpp"

#include <exception>
#include <utility>

namespace headroom {

void ImageWriter::write(std::filesystem::path path, Image image, PngText text) {
  write(std::move(path), std::move(image), std::move(text), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  });
}

void ImageWriter::write(std::filesystem::path path, Image image, PngText text,
                        std::function<void(std::exception_ptr)> then) {
  finish();
  last_ = std::async(std::launch::async, [path = std::move(path), image = std::move(image), text = std::move(text),
                                          then = std::move(then)] {
    std::exception_ptr error;
    try {
      write_png(path, image, text);
    } catch (...) {
      error = std::current_exception();
    }
    then(error);
  });
}

void ImageWriter::finish() {
  if (last_.valid()) last_.get();
}

}  // namespace headroom
