#include "media/ffmpeg/frame_to_rgb.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Planar formats of 8 bits.
struct PlanarFormat {
  AVPixelFormat format;
  Chroma chroma;  // k420Left for all 4:2:0
  bool is_full;   // full range, whatever the frame states
};
constexpr PlanarFormat kPlanarFormats[] = {
    {AV_PIX_FMT_YUV420P, Chroma::k420Left, false}, {AV_PIX_FMT_YUVJ420P, Chroma::k420Left, true},
    {AV_PIX_FMT_YUV422P, Chroma::k422, false},     {AV_PIX_FMT_YUVJ422P, Chroma::k422, true},
    {AV_PIX_FMT_YUV444P, Chroma::k444, false},     {AV_PIX_FMT_YUVJ444P, Chroma::k444, true},
};

/// Chroma sample positions, in 256ths of a pixel as in libswscale.
struct ChromaPlace {
  int across, down;
  friend bool operator==(const ChromaPlace&, const ChromaPlace&) = default;
};
constexpr ChromaPlace kCenter = {128, 128};
constexpr ChromaPlace kLeft = {0, 128};
constexpr ChromaPlace kTopLeft = {0, 0};

/// The default position is left for H.264 and related codecs, and centred for JPEG.
ChromaPlace chroma_place(AVChromaLocation location, AVCodecID codec) {
  switch (location) {
    case AVCHROMA_LOC_CENTER:
      return kCenter;
    case AVCHROMA_LOC_TOPLEFT:
      return kTopLeft;
    case AVCHROMA_LOC_TOP:
      return {128, 0};
    case AVCHROMA_LOC_BOTTOMLEFT:
      return {0, 256};
    case AVCHROMA_LOC_BOTTOM:
      return {128, 256};
    default:
      return codec == AV_CODEC_ID_MJPEG ? kCenter : kLeft;
  }
}

/// The matrix that the frame states; empty if it states none or another one.
std::optional<ColorMatrix> named_matrix(AVColorSpace space) {
  if (space == AVCOL_SPC_BT709) return ColorMatrix::kBt709;
  if (space == AVCOL_SPC_BT470BG || space == AVCOL_SPC_SMPTE170M) return ColorMatrix::kBt601;
  return std::nullopt;
}

/// libswscale's number for a matrix that YuvToRgb does not have.
std::optional<int> other_matrix(AVColorSpace space) {
  if (space == AVCOL_SPC_BT2020_NCL) return SWS_CS_BT2020;
  if (space == AVCOL_SPC_FCC) return SWS_CS_FCC;
  if (space == AVCOL_SPC_SMPTE240M) return SWS_CS_SMPTE240M;
  return std::nullopt;
}

void check_colors(const std::string& name, const AVFrame& frame) {
  if (frame.color_trc == AVCOL_TRC_SMPTE2084 || frame.color_trc == AVCOL_TRC_ARIB_STD_B67)
    fail("{} is HDR video ({}), which 8 bits cannot show; expected SDR: ffmpeg's filter tonemap makes it", name,
         frame.color_trc == AVCOL_TRC_SMPTE2084 ? "PQ" : "HLG");
  const AVColorSpace space = frame.colorspace;
  const bool is_known = space == AVCOL_SPC_UNSPECIFIED || space == AVCOL_SPC_RESERVED || space == AVCOL_SPC_RGB ||
                        named_matrix(space) || other_matrix(space);
  if (!is_known)
    fail("{} has a matrix of colours of number {} (ITU-T H.273, table 4); expected RGB, BT.601, BT.709 or BT.2020",
         name, static_cast<int>(space));
}

}  // namespace

FrameToRgb::FrameToRgb(const std::string& name, const AVFrame& first, AVCodecID codec,
                       std::optional<ColorMatrix> matrix, std::optional<ColorRange> range) {
  check_colors(name, first);
  const auto format = static_cast<AVPixelFormat>(first.format);
  const ChromaPlace place = chroma_place(first.chroma_location, codec);
  const ColorMatrix ours =
      matrix.value_or(named_matrix(first.colorspace).value_or(usual_matrix(first.width, first.height)));
  const std::optional<int> others = matrix ? std::nullopt : other_matrix(first.colorspace);
  const auto* const planar = std::ranges::find(kPlanarFormats, format, &PlanarFormat::format);
  const bool says_full =
      first.color_range == AVCOL_RANGE_JPEG || (planar != std::end(kPlanarFormats) && planar->is_full);
  const bool is_full = range ? *range == ColorRange::kFull : says_full;
  const bool is_420 = planar != std::end(kPlanarFormats) && planar->chroma == Chroma::k420Left;
  const bool has_our_place = !is_420 || place == kCenter || place == kLeft || place == kTopLeft;
  if (planar != std::end(kPlanarFormats) && !others && has_our_place) {
    const Chroma chroma_420 = place == kCenter ? Chroma::k420Center
                              : place == kLeft ? Chroma::k420Left
                                               : Chroma::k420TopLeft;
    planes_.emplace(YuvLayout{.width = first.width,
                              .height = first.height,
                              .chroma = is_420 ? chroma_420 : planar->chroma,
                              .matrix = ours,
                              .range = is_full ? ColorRange::kFull : ColorRange::kLimited});
    return;
  }

  const FfmpegLibraries& l = ffmpeg();
  const AVPixFmtDescriptor* const described = l.av_pix_fmt_desc_get(format);
  if (described == nullptr || l.sws_isSupportedInput(format) == 0)
    fail("{} has pixels of a kind that cannot be turned into RGB: {}", name,
         described == nullptr ? "?" : described->name);
  scaler_.reset(allocated(l.sws_alloc_context()));
  const auto set = [&](const char* option, std::int64_t value) { l.av_opt_set_int(scaler_.get(), option, value, 0); };
  set("srcw", first.width), set("srch", first.height), set("src_format", format);
  set("dstw", first.width), set("dsth", first.height), set("dst_format", AV_PIX_FMT_RGB24);
  set("sws_flags", SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP);
  if (described->log2_chroma_w != 0) set("src_h_chr_pos", place.across);
  if (described->log2_chroma_h != 0) set("src_v_chr_pos", place.down);
  if (const int status = l.sws_init_context(scaler_.get(), nullptr, nullptr); status < 0)
    fail("{} has pixels ({}) that cannot be turned into RGB: {}", name, described->name, ffmpeg_reason(status));
  const int* const coefficients =
      l.sws_getCoefficients(others.value_or(ours == ColorMatrix::kBt709 ? SWS_CS_ITU709 : SWS_CS_ITU601));
  constexpr int kOne = 1 << 16;  // contrast and saturation unchanged
  l.sws_setColorspaceDetails(scaler_.get(), coefficients, is_full ? 1 : 0, coefficients, 1, 0, kOne, kOne);
}

void FrameToRgb::convert(const AVFrame& frame, std::span<std::uint8_t> rgb) {
  if (planes_) {
    planes_->convert(
        {{frame.data[0], frame.data[1], frame.data[2]}, {frame.linesize[0], frame.linesize[1], frame.linesize[2]}},
        rgb);
    return;
  }
  const std::array<std::uint8_t*, 4> to = {rgb.data()};
  const std::array<int, 4> strides = {3 * frame.width};
  ffmpeg().sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, to.data(), strides.data());
}

}  // namespace headroom
