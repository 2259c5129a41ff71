#include "media/png.hpp"

#include <png.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/utf8.hpp"
#include "media/escape.hpp"
#include "media/latin1.hpp"
#include "media/zlib_stream.hpp"

namespace headroom {
namespace {

[[noreturn]] void on_error(png_structp png, png_const_charp reason) {
  static_cast<Escape*>(::png_get_error_ptr(png))->leave(reason);
}
void on_warning(png_structp /*png*/, png_const_charp /*warning*/) {}

/// Clips big-endian 16-bit gray samples at 255 in place. Pillow reads them as numbers, and its convert("RGB") clips
/// them.
void clip_to_8_bits(png_structp /*png*/, png_row_infop row, png_bytep bytes) {
  for (std::size_t i = 0; i < row->rowbytes / 2; ++i) bytes[i] = bytes[2 * i] != 0 ? 255 : bytes[2 * i + 1];
}

/// An inflated text may take this, or the size of the file.
constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;

/// Whether each chunk up to IEND lies within the file: libpng allocates the length that a chunk states, up to 2 GiB,
/// before it reads the chunk.
bool holds_its_chunks(std::string_view file) {
  constexpr std::size_t kSignature = 8, kAround = 12;  // a chunk has its length, its name and its checksum around it
  for (std::size_t at = kSignature; at + kAround <= file.size();) {
    const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(file[at + i])}; };
    const std::size_t length = byte(0) << 24U | byte(1) << 16U | byte(2) << 8U | byte(3);
    if (length > file.size() - at - kAround) return false;
    if (file.substr(at + 4, 4) == "IEND") return true;
    at += kAround + length;
  }
  return false;
}

/// A PNG in memory, read by libpng.
class PngReader {
 public:
  PngReader(std::string_view file, std::string_view name) : rest_(file), name_(name) {}
  ~PngReader() { ::png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// A black image of the size in the header.
  [[nodiscard]] Image read_header(std::uint64_t most_pixels) {
    guard([&] {
      if (!holds_its_chunks(rest_)) escape_.leave(kCutOff);
      png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &escape_, on_error, on_warning);
      if (png_ != nullptr) info_ = ::png_create_info_struct(png_);
      if (info_ == nullptr) escape_.leave("out of memory");
      ::png_set_read_fn(png_, &rest_, on_read);
      ::png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_ALWAYS, reinterpret_cast<png_const_bytep>("eXIf"), 1);
      ::png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // most_pixels is the limit
      ::png_set_chunk_malloc_max(png_, std::max(rest_.size(), kMostTextBytes));
      ::png_read_info(png_, info_);
    });
    const png_uint_32 width = ::png_get_image_width(png_, info_);
    const png_uint_32 height = ::png_get_image_height(png_, info_);
    check_pixel_count(name_, width, height, most_pixels);
    return make_image(static_cast<int>(width), static_cast<int>(height), 3);
  }

  /// Reads the pixels and the chunks after them.
  void read_pixels(Image& image) {
    guard([&] {
      set_transforms();
      const int passes = ::png_set_interlace_handling(png_);
      ::png_read_update_info(png_, info_);
      if (::png_get_rowbytes(png_, info_) != image.row_bytes()) escape_.leave("its rows have an unexpected size");
      for (int pass = 0; pass < passes; ++pass)
        for (int y = 0; y < image.height; ++y) ::png_read_row(png_, image.row(y), nullptr);
      ::png_read_end(png_, info_);
    });
  }

  [[nodiscard]] PngText text() const {
    png_textp entries = nullptr;
    const int count = ::png_get_text(png_, info_, &entries, nullptr);
    PngText text;
    for (int i = 0; i < count; ++i) {
      const png_text& entry = entries[i];
      const bool international = entry.compression >= PNG_ITXT_COMPRESSION_NONE;
      const std::string key = utf8_from_latin1(entry.key);
      const std::string_view value(entry.text, international ? entry.itxt_length : entry.text_length);
      if (international && !is_utf8(value)) fail("{} holds a text '{}' that is not UTF-8", name_, key);
      text.insert_or_assign(key, international ? std::string(value) : utf8_from_latin1(value));
    }
    return text;
  }

  [[nodiscard]] PictureMetadata metadata() const {
    PictureMetadata metadata{.exif = last_exif(), .xmp = std::string(last_text("XML:com.adobe.xmp"))};
    if (metadata.exif.empty()) metadata.exif = exif_of_raw_profile(last_text("Raw profile type exif"));
    return metadata;
  }

 private:
  template <class Steps>
  void guard(const Steps& steps) {
    if (!escape_.run(steps)) fail("{} is not a readable PNG: {}", name_, escape_.reason());
  }

  /// The raw Exif data: libpng drops data that it considers invalid, but Pillow does not.
  [[nodiscard]] std::string last_exif() const {
    png_unknown_chunkp chunks = nullptr;
    const int count = ::png_get_unknown_chunks(png_, info_, &chunks);
    std::string exif;
    for (int i = 0; i < count; ++i) exif.assign(reinterpret_cast<const char*>(chunks[i].data), chunks[i].size);
    return exif;
  }

  /// The bytes of the last text with that keyword; empty if there is none.
  [[nodiscard]] std::string_view last_text(std::string_view key) const {
    png_textp entries = nullptr;
    const int count = ::png_get_text(png_, info_, &entries, nullptr);
    for (int i = count - 1; i >= 0; --i) {
      const png_text& entry = entries[i];
      const bool international = entry.compression >= PNG_ITXT_COMPRESSION_NONE;
      if (key == entry.key) return {entry.text, international ? entry.itxt_length : entry.text_length};
    }
    return {};
  }

  static void on_read(png_structp png, png_bytep to, std::size_t size) {
    auto& rest = *static_cast<std::string_view*>(::png_get_io_ptr(png));
    if (rest.size() < size) ::png_error(png, kCutOff);
    std::memcpy(to, rest.data(), size);
    rest.remove_prefix(size);
  }

  /// Converts to RGB with 8 bits per channel, ignoring gamma, profiles and transparency.
  void set_transforms() {
    const int color = ::png_get_color_type(png_, info_);
    if (color == PNG_COLOR_TYPE_PALETTE) ::png_set_palette_to_rgb(png_);
    if ((color & PNG_COLOR_MASK_COLOR) == 0) {
      ::png_set_expand_gray_1_2_4_to_8(png_);
      ::png_set_gray_to_rgb(png_);
    }
    if (color == PNG_COLOR_TYPE_GRAY && ::png_get_bit_depth(png_, info_) == 16) {
      ::png_set_read_user_transform_fn(png_, clip_to_8_bits);
      ::png_set_user_transform_info(png_, nullptr, 8, 3);
    } else {
      ::png_set_strip_16(png_);
    }
    ::png_set_strip_alpha(png_);
  }

  std::string_view rest_;  // unread bytes of the file
  std::string_view name_;
  Escape escape_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

/// Paeth's filter of a row: each byte less a predictor. The predictor is the left, upper or upper-left byte,
/// whichever is nearest to left + upper - upper-left (PNG specification, 9.4). `step` is the number of bytes per
/// pixel.
void filter_row(const std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::size_t step, char* to) {
  for (std::size_t i = 0; i < step; ++i) to[i] = static_cast<char>(row[i] - above[i]);
  for (std::size_t i = step; i < bytes; ++i) {
    const int left = row[i - step], up = above[i], corner = above[i - step];
    const int from_left = std::abs(up - corner), from_up = std::abs(left - corner);
    const int from_corner = std::abs(left + up - 2 * corner);
    const int other = from_up <= from_corner ? up : corner;
    const int nearest = from_left <= from_up && from_left <= from_corner ? left : other;
    to[i] = static_cast<char>(row[i] - nearest);
  }
}

/// The filtered rows of an image, each after its filter number. libpng would try all five filters for each row, and
/// choose Paeth's for nearly all rows of photographs.
std::string filtered_rows(const Image& image) {
  constexpr char kPaeth = 4;
  const std::size_t bytes = image.row_bytes();
  const std::vector<std::uint8_t> nothing(bytes, 0);
  std::string rows(static_cast<std::size_t>(image.height) * (bytes + 1), '\0');
  for (int y = 0; y < image.height; ++y) {
    char* const to = rows.data() + static_cast<std::size_t>(y) * (bytes + 1);
    to[0] = kPaeth;
    filter_row(image.row(y), y == 0 ? nothing.data() : image.row(y - 1), bytes,
               static_cast<std::size_t>(image.channels), to + 1);
  }
  return rows;
}

/// Empty if there is not enough memory.
std::optional<std::string> compressed(const Image& image) {
  try {
    return zlib_stream(filtered_rows(image));
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

/// A PNG that is written to memory by libpng, around pixels that are already compressed.
class Writer {
 public:
  ~Writer() { ::png_destroy_write_struct(&png_, &info_); }
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Returns false if libpng fails; see reason().
  [[nodiscard]] bool write(const Image& image, std::span<const png_text> text) {
    const std::optional<std::string> pixels = compressed(image);
    return escape_.run([&] {
      if (!pixels) escape_.leave("out of memory");
      png_ = ::png_create_write_struct(PNG_LIBPNG_VER_STRING, &escape_, on_error, on_warning);
      if (png_ != nullptr) info_ = ::png_create_info_struct(png_);
      if (info_ == nullptr) escape_.leave("out of memory");
      ::png_set_write_fn(png_, &encoded_, on_write, nullptr);
      ::png_set_IHDR(png_, info_, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
                     image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
      ::png_set_text(png_, info_, text.data(), static_cast<int>(text.size()));
      ::png_write_info(png_, info_);
      for (std::size_t at = 0; at < pixels->size(); at += kMostOfChunk)
        write_chunk("IDAT", pixels->data() + at, std::min(kMostOfChunk, pixels->size() - at));
      write_chunk("IEND", nullptr, 0);
    });
  }
  [[nodiscard]] const std::string& encoded() const { return encoded_; }
  [[nodiscard]] const char* reason() const { return escape_.reason(); }

 private:
  static constexpr std::size_t kMostOfChunk = std::size_t{1} << 20;

  void write_chunk(const char* name, const char* bytes, std::size_t size) {
    ::png_write_chunk(png_, reinterpret_cast<png_const_bytep>(name), reinterpret_cast<png_const_bytep>(bytes), size);
  }

  static void on_write(png_structp png, png_bytep bytes, std::size_t size) {
    bool has_room = true;
    try {
      static_cast<std::string*>(::png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), size);
    } catch (const std::exception&) {
      has_room = false;  // an exception must not pass through libpng
    }
    if (!has_room) ::png_error(png, "out of memory");
  }

  std::string encoded_;
  Escape escape_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

/// A text chunk for libpng, with pointers into the arguments.
png_text chunk_of(const std::string& key, const std::string& value, bool is_latin1) {
  png_text chunk{};
  chunk.compression = is_latin1 ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
  chunk.key = const_cast<png_charp>(key.c_str());  // libpng does not modify it
  chunk.text = const_cast<png_charp>(value.c_str());
  (is_latin1 ? chunk.text_length : chunk.itxt_length) = value.size();
  return chunk;
}

void check_keyword(std::string_view key) {
  HR_CHECK(!key.empty() && key.size() <= PNG_KEYWORD_MAX_LENGTH);
  HR_CHECK(key.front() != ' ' && key.back() != ' ');
  HR_CHECK(std::ranges::all_of(key, [](char c) { return c >= ' ' && c <= '~'; }));
}

}  // namespace

std::string encode_png(const Image& image, const PngText& text, std::string_view name) {
  check_image(image);
  std::vector<std::string> latin1;
  latin1.reserve(text.size());  // chunks point into it
  std::vector<png_text> chunks;
  for (const auto& [key, value] : text) {
    check_keyword(key);
    if (!is_utf8(value)) fail("cannot write {}: its text '{}' is not UTF-8", name, key);
    if (value.find('\0') != std::string::npos) fail("cannot write {}: its text '{}' holds a NUL", name, key);
    std::optional<std::string> narrow = latin1_from_utf8(value);
    if (narrow) latin1.push_back(std::move(*narrow));
    chunks.push_back(chunk_of(key, narrow ? latin1.back() : value, narrow.has_value()));
  }
  Writer writer;
  if (!writer.write(image, chunks)) fail("cannot write {}: libpng: {}", name, writer.reason());
  return writer.encoded();
}

void write_png(const std::filesystem::path& path, const Image& image, const PngText& text) {
  write_file_atomically(path, encode_png(image, text, path.native()));
}

PngText read_png_text(const std::filesystem::path& path) {
  const std::string file = read_file(path, {.most_bytes = std::uint64_t{1} << 30, .takes_pipes = true});
  PngReader reader(file, path.native());
  Image image = reader.read_header(kMostPixels);
  reader.read_pixels(image);  // texts may follow the pixels
  return reader.text();
}

PngContents parse_png(std::string_view file, std::string_view name, std::uint64_t most_pixels) {
  PngReader reader(file, name);
  PngContents contents{.image = reader.read_header(most_pixels), .metadata = {}};
  reader.read_pixels(contents.image);
  contents.metadata = reader.metadata();
  return contents;
}

}  // namespace headroom
