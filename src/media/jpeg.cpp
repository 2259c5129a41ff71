#include "media/jpeg.hpp"

#include <cstdio>

// <cstdio> first: jpeglib.h takes FILE for granted.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.hpp"
#include "media/escape.hpp"

namespace headroom {
namespace {

constexpr int kMetadata = JPEG_APP0 + 1;
constexpr std::string_view kExifName("Exif\0\0", 6);
constexpr std::string_view kXmpName("http://ns.adobe.com/xap/1.0/\0", 29);

struct Handlers : jpeg_error_mgr {
  Escape escape;
  bool is_in_last_scan = false;
  bool has_ended = false;
};

Handlers& handlers_of(j_common_ptr codec) { return *static_cast<Handlers*>(codec->err); }

[[noreturn]] void on_error(j_common_ptr codec) {
  char reason[JMSG_LENGTH_MAX];
  codec->err->format_message(codec, reason);
  handlers_of(codec).escape.leave(reason);
}

/// libjpeg fills in the missing data of a truncated file and warns. Missing pixels are an error here.
void on_message(j_common_ptr codec, int level) {
  if (level >= 0) return;  // not a warning
  Handlers& handlers = handlers_of(codec);
  if (handlers.msg_code == JWRN_JPEG_EOF) handlers.has_ended = true;
  const bool lacks_pixels = !handlers.is_in_last_scan || handlers.msg_code == JWRN_HIT_MARKER;
  if (handlers.has_ended && lacks_pixels) handlers.escape.leave(kCutOff);
}

/// Limits the number of scans: a few bytes can begin a scan of all pixels, so a file could take hours.
void on_progress(j_common_ptr codec) {
  constexpr int kMostScans = 100;
  const bool has_more = reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMostScans;
  if (has_more) handlers_of(codec).escape.leave("it has more than 100 scans");
}

/// A JPEG in memory, read by libjpeg.
class JpegReader {
 public:
  JpegReader(std::string_view file, std::string_view name) : file_(file), name_(name) {
    codec_.err = ::jpeg_std_error(&handlers_);
    handlers_.error_exit = on_error;
    handlers_.emit_message = on_message;
  }
  ~JpegReader() { ::jpeg_destroy_decompress(&codec_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// A black image of the size in the header.
  [[nodiscard]] Image read_header(std::uint64_t most_pixels) {
    guard([&] {
      ::jpeg_create_decompress(&codec_);
      codec_.progress = &progress_;
      progress_.progress_monitor = on_progress;
      ::jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
      ::jpeg_save_markers(&codec_, kMetadata, 0xFFFF);
      ::jpeg_read_header(&codec_, TRUE);
      handlers_.is_in_last_scan = ::jpeg_has_multiple_scans(&codec_) == FALSE;
    });
    if (codec_.jpeg_color_space == JCS_CMYK || codec_.jpeg_color_space == JCS_YCCK)
      fail("{} is a JPEG in CMYK, for print; expected one in gray or colour (YCbCr or RGB)", name_);
    check_pixel_count(name_, codec_.image_width, codec_.image_height, most_pixels);
    return make_image(static_cast<int>(codec_.image_width), static_cast<int>(codec_.image_height), 3);
  }

  void read_pixels(Image& image) {
    guard([&] {
      codec_.out_color_space = JCS_RGB;
      ::jpeg_start_decompress(&codec_);
      while (codec_.output_scanline < codec_.output_height) {
        JSAMPROW row = image.row(static_cast<int>(codec_.output_scanline));
        ::jpeg_read_scanlines(&codec_, &row, 1);
      }
    });
  }

  /// The metadata of the segments read so far.
  [[nodiscard]] PictureMetadata metadata() const {
    PictureMetadata metadata;
    for (const jpeg_marker_struct* marker = codec_.marker_list; marker != nullptr; marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (data.starts_with(kExifName)) metadata.exif += data.substr(kExifName.size());
      if (data.starts_with(kXmpName)) metadata.xmp = data.substr(kXmpName.size());
    }
    return metadata;
  }

 private:
  template <class Steps>
  void guard(const Steps& steps) {
    if (!handlers_.escape.run(steps)) fail("{} is not a readable JPEG: {}", name_, handlers_.escape.reason());
  }

  std::string_view file_;
  std::string_view name_;
  Handlers handlers_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct codec_{};
};

}  // namespace

JpegContents parse_jpeg(std::string_view file, std::string_view name, std::uint64_t most_pixels) {
  JpegReader reader(file, name);
  JpegContents contents{.image = reader.read_header(most_pixels), .metadata = {}};
  contents.metadata = reader.metadata();
  reader.read_pixels(contents.image);
  return contents;
}

}  // namespace headroom
