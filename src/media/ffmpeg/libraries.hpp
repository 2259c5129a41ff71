#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

#include <memory>
#include <string>

namespace headroom {

/// Addresses of the called functions, with the types from their headers.
struct FfmpegLibraries {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name that is declared
#define HR_FUNCTION(library, name) decltype(&::name) name = nullptr;
#include "media/ffmpeg/functions.def"
#undef HR_FUNCTION
// Needed before FFmpeg 6.1; later versions always do this.
#if LIBAVFORMAT_VERSION_INT < AV_VERSION_INT(60, 16, 100)
  decltype(&::av_format_inject_global_side_data) av_format_inject_global_side_data = nullptr;
#endif
};

/// Opened at the first call and never closed. Only the versions whose headers the program was compiled with are
/// accepted, since the layout of their structures changes. Throws Error with the searched names if they are not
/// installed.
[[nodiscard]] const FfmpegLibraries& ffmpeg();

/// FFmpeg's message for a negative result.
[[nodiscard]] std::string ffmpeg_reason(int error);

/// Throws std::bad_alloc if FFmpeg had no memory for `object`.
template <typename Object>
Object* allocated(Object* object) {
  if (object == nullptr) throw std::bad_alloc();
  return object;
}

/// Frees with the function that takes the address of a pointer.
template <auto kFree>
struct FreeByAddress {
  template <typename Object>
  void operator()(Object* object) const {
    (ffmpeg().*kFree)(&object);
  }
};
using AvPacket = std::unique_ptr<AVPacket, FreeByAddress<&FfmpegLibraries::av_packet_free>>;
using AvFrame = std::unique_ptr<AVFrame, FreeByAddress<&FfmpegLibraries::av_frame_free>>;
using AvCodec = std::unique_ptr<AVCodecContext, FreeByAddress<&FfmpegLibraries::avcodec_free_context>>;
using AvInput = std::unique_ptr<AVFormatContext, FreeByAddress<&FfmpegLibraries::avformat_close_input>>;

}  // namespace headroom
