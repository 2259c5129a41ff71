#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "io/idx_file.hpp"

namespace headroom {

/// Files of a set of images; `images` is empty if there are none.
struct ImageFiles {
  std::string images;
  std::string labels;
};

/// Grey images of one size, each of a class, from two files in idx format as Fashion-MNIST's.
class LabelledImages {
 public:
  /// `pad` pixels of 0 are added on every side. Throws Error for files that are no images and labels of one number.
  LabelledImages(const ImageFiles& files, std::int64_t pad);

  [[nodiscard]] std::int64_t count() const noexcept { return images_.extents[0]; }
  [[nodiscard]] std::int64_t rows() const noexcept { return images_.extents[1] + 2 * pad_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return images_.extents[2] + 2 * pad_; }
  /// The largest label plus 1.
  [[nodiscard]] std::int64_t classes() const noexcept { return classes_; }
  [[nodiscard]] std::int64_t label(std::int64_t image) const;
  /// The pixels of an image in square patches of `side`, which divides rows and columns: [patches, side * side].
  void copy_patches(std::int64_t image, std::int64_t side, std::span<std::uint8_t> to) const;
  /// Of all pixels and labels.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  IdxArray images_, labels_;
  std::int64_t pad_;
  std::int64_t classes_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace headroom
