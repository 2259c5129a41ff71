#include "media/jpeg_encoder.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>

// <cstdio> first: jpeglib.h takes FILE for granted.
#include <jpeglib.h>

#include "base/error.hpp"
#include "media/escape.hpp"

namespace headroom {
namespace {

struct WriteHandlers : jpeg_error_mgr {
  Escape escape;
};

[[noreturn]] void on_write_error(j_common_ptr codec) {
  char reason[JMSG_LENGTH_MAX];
  codec->err->format_message(codec, reason);
  static_cast<WriteHandlers*>(codec->err)->escape.leave(reason);
}

void on_write_message(j_common_ptr, int) {}

/// A JPEG that is written to memory.
class JpegWriter {
 public:
  JpegWriter() {
    codec_.err = ::jpeg_std_error(&handlers_);
    handlers_.error_exit = on_write_error;
    handlers_.emit_message = on_write_message;
  }
  ~JpegWriter() {
    ::jpeg_destroy_compress(&codec_);
    std::free(file_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  [[nodiscard]] std::string write(const std::uint8_t* rgb, int width, int height, int quality) {
    const bool is_written = handlers_.escape.run([&] {
      ::jpeg_create_compress(&codec_);
      ::jpeg_mem_dest(&codec_, &file_, &file_bytes_);
      codec_.image_width = static_cast<JDIMENSION>(width);
      codec_.image_height = static_cast<JDIMENSION>(height);
      codec_.input_components = 3;
      codec_.in_color_space = JCS_RGB;
      ::jpeg_set_defaults(&codec_);
      ::jpeg_set_quality(&codec_, quality, TRUE);
      codec_.comp_info[0].h_samp_factor = codec_.comp_info[0].v_samp_factor = 1;  // like the others: 4:4:4
      ::jpeg_start_compress(&codec_, TRUE);
      while (codec_.next_scanline < codec_.image_height) {
        const std::size_t row = std::size_t{codec_.next_scanline} * codec_.image_width * 3;
        JSAMPROW line = const_cast<JSAMPROW>(rgb + row);  // libjpeg does not modify it
        ::jpeg_write_scanlines(&codec_, &line, 1);
      }
      ::jpeg_finish_compress(&codec_);
    });
    if (!is_written) fail("cannot make a JPEG of {} x {} pixels: {}", width, height, handlers_.escape.reason());
    return {reinterpret_cast<const char*>(file_), file_bytes_};
  }

 private:
  WriteHandlers handlers_{};
  jpeg_compress_struct codec_{};
  unsigned char* file_ = nullptr;  // allocated by malloc()
  unsigned long file_bytes_ = 0;
};

}  // namespace

std::string encode_jpeg(std::span<const std::uint8_t> rgb, int width, int height, int quality) {
  HR_CHECK(width > 0 && height > 0);
  HR_CHECK_EQ(rgb.size(), static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  return JpegWriter().write(rgb.data(), width, height, quality);
}

}  // namespace headroom
