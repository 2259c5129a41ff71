// Frames between Y, Cb, Cr and RGB, 8 bits a sample.
//
// Pixels are processed in pairs, with the even and the odd pixel in 16 bits each. Both bytes of a 16-bit number are
// then accessible without a shuffle, and subsampled colour differences, one per pair, fit as stored.
// Multiplications are those of SSSE3's pmulhrsw, round(a * b / 2^15), which every vector unit has or emulates
// exactly.
//
// 1920 x 1080 pixels of 4:2:0 take 0.8 ms to RGB and 0.9 ms from RGB on one core of a shared EPYC with AVX-512;
// 512 x 512 pixels take 0.10 ms in each direction. At 60 frames per second this is a tenth of a core.

#include "media/video/yuv.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"

// Portable code, AVX2, AVX-512.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "media/video/yuv.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if !defined(HEADROOM_MEDIA_YUV_ONCE)
#define HEADROOM_MEDIA_YUV_ONCE
namespace headroom {

/// Fixed-point factors of multiplications: a unit in the last place is 2^-15 of the named quantity.
struct ToRgbFactors {
  std::int16_t black;                                // luma value of black
  std::int16_t luma;                                 // half the value of a luma step
  std::int16_t red, green_of_cb, green_of_cr, blue;  // a quarter of the value of a colour difference step
};
struct ToYuvFactors {
  std::int16_t black;
  std::int16_t luma[3], cb[3], cr[3];  // for red, green and blue
};
/// Weights of colour differences before, at and after a pair, for its even and its odd pixel; each sums up to 4.
struct PairWeights {
  std::int16_t even_before, even_at, odd_at, odd_behind;
};

/// Samples of one row that a vector may access after its end, and before its beginning.
inline constexpr std::size_t kRowMargin = 64;

}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Numbers = hn::ScalableTag<std::int16_t>;
using Pairs = hn::Vec<Numbers>;
constexpr auto kPairs = static_cast<int>(hn::MaxLanes(Numbers()));
static_assert(kRowMargin >= 2 * hn::MaxLanes(Numbers()));

struct EvenAndOdd {
  Pairs even, odd;
};

/// Red, green and blue.
struct Pixels {
  EvenAndOdd red, green, blue;
};

// Interleaving of even and odd bytes, and the inverse; stored numbers are within 0 to 255.
#if HWY_TARGET == HWY_SCALAR  // one lane: bytes of a pair have no vector
HWY_INLINE EvenAndOdd pair_of(std::uint8_t even, std::uint8_t odd) {
  return {hn::Set(Numbers(), even), hn::Set(Numbers(), odd)};
}
HWY_INLINE EvenAndOdd load_bytes(const std::uint8_t* from) { return pair_of(from[0], from[1]); }
HWY_INLINE Pixels load_pixels(const std::uint8_t* rgb) {
  return {pair_of(rgb[0], rgb[3]), pair_of(rgb[1], rgb[4]), pair_of(rgb[2], rgb[5])};
}
HWY_INLINE void store_bytes(EvenAndOdd v, std::uint8_t* to, std::ptrdiff_t step = 1) {
  to[0] = static_cast<std::uint8_t>(hn::GetLane(v.even));
  to[step] = static_cast<std::uint8_t>(hn::GetLane(v.odd));
}
HWY_INLINE void store_pixels(const Pixels& v, std::uint8_t* rgb) {
  store_bytes(v.red, rgb, 3);
  store_bytes(v.green, rgb + 1, 3);
  store_bytes(v.blue, rgb + 2, 3);
}
#else
using Bytes = hn::Repartition<std::uint8_t, Numbers>;
HWY_INLINE EvenAndOdd split(hn::Vec<Bytes> bytes) {
  const hn::RebindToUnsigned<Numbers> d;
  const auto pairs = hn::BitCast(d, bytes);
  return {hn::BitCast(Numbers(), hn::And(pairs, hn::Set(d, 0xFF))), hn::BitCast(Numbers(), hn::ShiftRight<8>(pairs))};
}
HWY_INLINE hn::Vec<Bytes> join(EvenAndOdd v) { return hn::BitCast(Bytes(), hn::Or(v.even, hn::ShiftLeft<8>(v.odd))); }
HWY_INLINE EvenAndOdd load_bytes(const std::uint8_t* from) { return split(hn::LoadU(Bytes(), from)); }
HWY_INLINE void store_bytes(EvenAndOdd v, std::uint8_t* to) { hn::StoreU(join(v), Bytes(), to); }
HWY_INLINE Pixels load_pixels(const std::uint8_t* rgb) {
  hn::Vec<Bytes> red, green, blue;
  hn::LoadInterleaved3(Bytes(), rgb, red, green, blue);
  return {split(red), split(green), split(blue)};
}
HWY_INLINE void store_pixels(const Pixels& v, std::uint8_t* rgb) {
  hn::StoreInterleaved3(join(v.red), join(v.green), join(v.blue), Bytes(), rgb);
}
#endif

HWY_INLINE Pairs times(Pairs v, std::int16_t factor) { return hn::MulFixedPoint15(v, hn::Set(Numbers(), factor)); }

template <int kFractionBits>
HWY_INLINE Pairs rounded_byte(Pairs v) {
  const Pairs half = hn::Set(Numbers(), 1 << (kFractionBits - 1));
  const Pairs whole = hn::ShiftRight<kFractionBits>(hn::SaturatedAdd(v, half));
  return hn::Min(hn::Max(whole, hn::Zero(Numbers())), hn::Set(Numbers(), 255));
}

struct Colors {
  Pairs red, green, blue;
};
/// `cb` and `cr` are times 16, 0 to 255.
HWY_INLINE Colors colors_of(const ToRgbFactors& k, Pairs y, Pairs cb, Pairs cr) {
  const Numbers d;
  const Pairs neutral = hn::Set(d, 128 * 16);
  const Pairs luma = times(hn::ShiftLeft<7>(hn::Sub(y, hn::Set(d, k.black))), k.luma);
  const Pairs blue_difference = hn::ShiftLeft<4>(hn::Sub(cb, neutral));
  const Pairs red_difference = hn::ShiftLeft<4>(hn::Sub(cr, neutral));
  const Pairs green =
      hn::Sub(hn::Sub(luma, times(blue_difference, k.green_of_cb)), times(red_difference, k.green_of_cr));
  return {rounded_byte<6>(hn::SaturatedAdd(luma, times(red_difference, k.red))), rounded_byte<6>(green),
          rounded_byte<6>(hn::SaturatedAdd(luma, times(blue_difference, k.blue)))};
}

/// Colour differences of a pair's pixels, times 16; `row` has them times 4.
HWY_INLINE EvenAndOdd of_pixels(const PairWeights& w, const std::int16_t* row) {
  const Numbers d;
  const Pairs at = hn::LoadU(d, row);
  const auto weighted = [&](Pairs v, std::int16_t weight) HWY_ATTR { return hn::Mul(v, hn::Set(d, weight)); };
  return {hn::Add(weighted(hn::LoadU(d, row - 1), w.even_before), weighted(at, w.even_at)),
          hn::Add(weighted(at, w.odd_at), weighted(hn::LoadU(d, row + 1), w.odd_behind))};
}
/// The same if each pixel has its own.
HWY_INLINE EvenAndOdd of_pixels_each(const std::int16_t* row) {
  const Numbers d;
  Pairs even, odd;
  hn::LoadInterleaved2(d, row, even, odd);
  return {hn::ShiftLeft<2>(even), hn::ShiftLeft<2>(odd)};
}

/// Converts one row. `weights` is null if each pixel has its own colour differences.
void rgb_row(const ToRgbFactors& k, const PairWeights* weights, int width, const std::uint8_t* y,
             const std::int16_t* cb, const std::int16_t* cr, std::uint8_t* rgb) {
  constexpr int kPixels = 2 * kPairs;
  const auto convert = [&](int x, const std::uint8_t* from, std::uint8_t* to) HWY_ATTR {
    const EvenAndOdd luma = load_bytes(from);
    const EvenAndOdd blue = weights != nullptr ? of_pixels(*weights, cb + x / 2) : of_pixels_each(cb + x);
    const EvenAndOdd red = weights != nullptr ? of_pixels(*weights, cr + x / 2) : of_pixels_each(cr + x);
    const Colors even = colors_of(k, luma.even, blue.even, red.even);
    const Colors odd = colors_of(k, luma.odd, blue.odd, red.odd);
    store_pixels({{even.red, odd.red}, {even.green, odd.green}, {even.blue, odd.blue}}, to);
  };
  int x = 0;
  for (; x + kPixels <= width; x += kPixels) convert(x, y + x, rgb + std::ptrdiff_t{3} * x);
  if (x == width) return;
  const auto rest = static_cast<std::size_t>(width - x);
  std::uint8_t from[kPixels] = {};
  std::uint8_t to[3 * kPixels];
  std::memcpy(from, y + x, rest);
  convert(x, from, to);
  std::memcpy(rgb + std::ptrdiff_t{3} * x, to, 3 * rest);
}

/// to[i] = near_weight * near[i] + far_weight * far[i], with the border values replicated once on both sides.
void blend_rows(int n, const std::uint8_t* near, int near_weight, const std::uint8_t* far, int far_weight,
                std::int16_t* to) {
  const Numbers d;
  const hn::Rebind<std::uint8_t, Numbers> narrow;
  const Pairs near_factor = hn::Set(d, static_cast<std::int16_t>(near_weight));
  const Pairs far_factor = hn::Set(d, static_cast<std::int16_t>(far_weight));
  int i = 0;
  for (; i + kPairs <= n; i += kPairs) {
    const Pairs a = hn::PromoteTo(d, hn::LoadU(narrow, near + i));
    const Pairs b = hn::PromoteTo(d, hn::LoadU(narrow, far + i));
    hn::StoreU(hn::Add(hn::Mul(a, near_factor), hn::Mul(b, far_factor)), d, to + i);
  }
  for (; i < n; ++i) to[i] = static_cast<std::int16_t>(near_weight * near[i] + far_weight * far[i]);
  to[-1] = to[0];
  to[n] = to[n - 1];
}

/// The weighted sum of the colours, with their 7 fractional bits; `base` is added before rounding.
HWY_INLINE Pairs mixed(const std::int16_t (&k)[3], Pairs red, Pairs green, Pairs blue, int base) {
  const Pairs sum = hn::Add(hn::Add(times(red, k[0]), times(green, k[1])), times(blue, k[2]));
  return rounded_byte<7>(hn::SaturatedAdd(sum, hn::Set(Numbers(), static_cast<std::int16_t>(base << 7))));
}
HWY_INLINE EvenAndOdd mixed(const std::int16_t (&k)[3], const Pixels& p, int base) {
  const auto scaled = [](Pairs v) HWY_ATTR { return hn::ShiftLeft<7>(v); };
  return {mixed(k, scaled(p.red.even), scaled(p.green.even), scaled(p.blue.even), base),
          mixed(k, scaled(p.red.odd), scaled(p.green.odd), scaled(p.blue.odd), base)};
}

/// Calls step(x, rgb at x, number of valid pixels) for each vector of a row's pixels. The last pixel is repeated.
template <class Step>
HWY_INLINE void for_each_vector(int width, const std::uint8_t* rgb, const Step& step) {
  constexpr int kPixels = 2 * kPairs;
  int x = 0;
  for (; x + kPixels <= width; x += kPixels) step(x, rgb + std::ptrdiff_t{3} * x, kPixels);
  if (x == width) return;
  std::uint8_t padded[3 * kPixels];
  for (int i = 0; i < kPixels; ++i)
    std::memcpy(padded + 3 * i, rgb + std::ptrdiff_t{3} * std::min(x + i, width - 1), 3);
  step(x, padded, width - x);
}

/// The first `count` bytes.
HWY_INLINE void store_first(EvenAndOdd v, int count, std::uint8_t* to) {
  if (count == 2 * kPairs) {
    store_bytes(v, to);
    return;
  }
  std::uint8_t bytes[2 * kPairs];
  store_bytes(v, bytes);
  std::memcpy(to, bytes, static_cast<std::size_t>(count));
}

void luma_row(const ToYuvFactors& k, int width, const std::uint8_t* rgb, std::uint8_t* y) {
  for_each_vector(width, rgb, [&](int x, const std::uint8_t* from, int count) HWY_ATTR {
    store_first(mixed(k.luma, load_pixels(from), k.black), count, y + x);
  });
}

/// Computes Cb or Cr for each pixel.
void chroma_row(const ToYuvFactors& k, int width, const std::uint8_t* rgb, std::uint8_t* cb, std::uint8_t* cr) {
  for_each_vector(width, rgb, [&](int x, const std::uint8_t* from, int count) HWY_ATTR {
    const Pixels pixels = load_pixels(from);
    store_first(mixed(k.cb, pixels, 128), count, cb + x);
    store_first(mixed(k.cr, pixels, 128), count, cr + x);
  });
}

/// Adds two rows: red, green and blue of even pixels, then of odd pixels. The odd sums have one element before the
/// first, which equals the first even one.
void sum_rows(int width, const std::uint8_t* upper, const std::uint8_t* lower, std::int16_t* const* sums) {
  const auto store = [&](int i, Pairs v, int x) HWY_ATTR { hn::StoreU(v, Numbers(), sums[i] + x / 2); };
  for_each_vector(width, upper, [&](int x, const std::uint8_t* from, int) HWY_ATTR {
    const Pixels p = load_pixels(from);
    store(0, p.red.even, x), store(1, p.green.even, x), store(2, p.blue.even, x);
    store(3, p.red.odd, x), store(4, p.green.odd, x), store(5, p.blue.odd, x);
  });
  const auto add = [&](int i, Pairs v, int x)
                       HWY_ATTR { store(i, hn::Add(v, hn::LoadU(Numbers(), sums[i] + x / 2)), x); };
  for_each_vector(width, lower, [&](int x, const std::uint8_t* from, int) HWY_ATTR {
    const Pixels p = load_pixels(from);
    add(0, p.red.even, x), add(1, p.green.even, x), add(2, p.blue.even, x);
    add(3, p.red.odd, x), add(4, p.green.odd, x), add(5, p.blue.odd, x);
  });
  for (int i = 0; i < 3; ++i) sums[3 + i][-1] = sums[i][0];
}

/// Computes `n` values of Cb and Cr, each from a pair of columns, or with left siting from a pair and the column
/// before it.
void chroma_of_sums(const ToYuvFactors& k, bool is_left, int n, std::int16_t* const* sums, std::uint8_t* cb,
                    std::uint8_t* cr) {
  const Numbers d;
  const hn::Rebind<std::uint8_t, Numbers> narrow;
  const auto store = [&](Pairs v, int i, std::uint8_t* to) HWY_ATTR {
    const auto bytes = hn::DemoteTo(narrow, v);
    if (i + kPairs <= n) {
      hn::StoreU(bytes, narrow, to + i);
      return;
    }
    std::uint8_t last[kPairs];
    hn::StoreU(bytes, narrow, last);
    std::memcpy(to + i, last, static_cast<std::size_t>(n - i));
  };
  for (int i = 0; i < n; i += kPairs) {
    Pairs colors[3];  // with 7 fractional bits
    for (int c = 0; c < 3; ++c) {
      const Pairs even = hn::LoadU(d, sums[c] + i);
      const Pairs odd = hn::LoadU(d, sums[3 + c] + i);
      const Pairs before = hn::LoadU(d, sums[3 + c] + i - 1);
      const Pairs left = hn::ShiftLeft<4>(hn::Add(hn::Add(even, even), hn::Add(odd, before)));
      colors[c] = is_left ? left : hn::ShiftLeft<5>(hn::Add(even, odd));
    }
    store(mixed(k.cb, colors[0], colors[1], colors[2], 128), i, cb);
    store(mixed(k.cr, colors[0], colors[1], colors[2], 128), i, cr);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(rgb_row);
HWY_EXPORT(blend_rows);
HWY_EXPORT(luma_row);
HWY_EXPORT(chroma_row);
HWY_EXPORT(sum_rows);
HWY_EXPORT(chroma_of_sums);

std::int16_t fixed(double value) { return static_cast<std::int16_t>(std::lround(value * 0x1p15)); }

/// Weights of red and blue in luma.
struct LumaWeights {
  double red, green, blue;
};
LumaWeights weights_of(ColorMatrix matrix) {
  return matrix == ColorMatrix::kBt709 ? LumaWeights{0.2126, 0.7152, 0.0722} : LumaWeights{0.299, 0.587, 0.114};
}

/// Number of steps of a range for 255 steps of RGB.
struct Steps {
  double luma, chroma;
  std::int16_t black;
};
Steps steps_of(ColorRange range) { return range == ColorRange::kFull ? Steps{255, 255, 0} : Steps{219, 224, 16}; }

ToRgbFactors to_rgb(const YuvLayout& layout) {
  const LumaWeights w = weights_of(layout.matrix);
  const Steps steps = steps_of(layout.range);
  const double red = 2 * (1 - w.red) * 255 / steps.chroma;
  const double blue = 2 * (1 - w.blue) * 255 / steps.chroma;
  return {.black = steps.black,
          .luma = fixed(255 / steps.luma / 2),
          .red = fixed(red / 4),
          .green_of_cb = fixed(blue * w.blue / w.green / 4),
          .green_of_cr = fixed(red * w.red / w.green / 4),
          .blue = fixed(blue / 4)};
}

ToYuvFactors to_yuv(const YuvLayout& layout) {
  const LumaWeights w = weights_of(layout.matrix);
  const Steps steps = steps_of(layout.range);
  const double luma = steps.luma / 255;
  const double cb = steps.chroma / 255 / (2 * (1 - w.blue));
  const double cr = steps.chroma / 255 / (2 * (1 - w.red));
  ToYuvFactors k{.black = steps.black,
                 .luma = {fixed(luma * w.red), 0, fixed(luma * w.blue)},
                 .cb = {fixed(-cb * w.red), 0, fixed(cb * (1 - w.blue))},
                 .cr = {fixed(cr * (1 - w.red)), 0, fixed(-cr * w.blue)}};
  // Green takes the rounding remainder of the sums, so that gray has no colour and white is white.
  k.luma[1] = static_cast<std::int16_t>(std::lround(luma * 0x1p15) - k.luma[0] - k.luma[2]);
  k.cb[1] = static_cast<std::int16_t>(-k.cb[0] - k.cb[2]);
  k.cr[1] = static_cast<std::int16_t>(-k.cr[0] - k.cr[2]);
  return k;
}

bool is_420(Chroma chroma) {
  return chroma == Chroma::k420Center || chroma == Chroma::k420Left || chroma == Chroma::k420TopLeft;
}

/// The two colour difference rows around a row of pixels.
struct RowBlend {
  int near, far;
  int near_weight, far_weight;
};
RowBlend blend_of(Chroma chroma, int y, int rows) {
  if (!is_420(chroma)) return {y, y, 4, 0};
  const int near = y / 2;
  const int next = std::min(near + 1, rows - 1);
  if (chroma == Chroma::k420TopLeft) return y % 2 == 0 ? RowBlend{near, near, 4, 0} : RowBlend{near, next, 2, 2};
  return {near, y % 2 == 0 ? std::max(near - 1, 0) : next, 3, 1};
}

std::size_t padded(int samples) { return static_cast<std::size_t>(samples) + 2 * kRowMargin; }

}  // namespace

ColorMatrix usual_matrix(int width, int height) {
  return width >= 1280 || height > 576 ? ColorMatrix::kBt709 : ColorMatrix::kBt601;
}

int YuvLayout::chroma_width() const {
  if (chroma == Chroma::kNone) return 0;
  return chroma == Chroma::k444 ? width : (width + 1) / 2;
}
int YuvLayout::chroma_height() const {
  if (chroma == Chroma::kNone) return 0;
  return is_420(chroma) ? (height + 1) / 2 : height;
}
std::size_t YuvLayout::frame_bytes() const {
  return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) +
         2 * static_cast<std::size_t>(chroma_width()) * static_cast<std::size_t>(chroma_height());
}

YuvPlanes<std::uint8_t> planes_of(const YuvLayout& layout, std::uint8_t* frame) {
  const std::ptrdiff_t luma = std::ptrdiff_t{layout.width} * layout.height;
  const std::ptrdiff_t chroma = std::ptrdiff_t{layout.chroma_width()} * layout.chroma_height();
  return {.planes = {frame, frame + luma, frame + luma + chroma},
          .strides = {layout.width, layout.chroma_width(), layout.chroma_width()}};
}

YuvToRgb::YuvToRgb(const YuvLayout& layout) : layout_(layout) {
  HR_CHECK(layout.width >= 1 && layout.height >= 1);
  const bool is_gray = layout.chroma == Chroma::kNone;
  constexpr std::int16_t kNeutral = 4 * 128;
  for (auto& row : rows_) row.assign(padded(is_gray ? layout.width : layout.chroma_width()), is_gray ? kNeutral : 0);
}

void YuvToRgb::convert(const YuvPlanes<const std::uint8_t>& yuv, std::span<std::uint8_t> rgb) {
  const auto row_bytes = std::size_t{3} * static_cast<std::size_t>(layout_.width);
  HR_CHECK_EQ(rgb.size(), row_bytes * static_cast<std::size_t>(layout_.height));
  constexpr PairWeights kCenter = {1, 3, 3, 1};
  constexpr PairWeights kFirst = {0, 4, 2, 2};
  const bool is_each = layout_.chroma == Chroma::k444 || layout_.chroma == Chroma::kNone;
  const PairWeights& weights = layout_.chroma == Chroma::k420Center ? kCenter : kFirst;
  const ToRgbFactors factors = to_rgb(layout_);
  for (int y = 0; y < layout_.height; ++y) {
    if (layout_.chroma != Chroma::kNone) {
      const RowBlend blend = blend_of(layout_.chroma, y, layout_.chroma_height());
      for (std::size_t i = 0; i < 2; ++i) HWY_DYNAMIC_DISPATCH(blend_rows)
      (layout_.chroma_width(), yuv.planes[1 + i] + blend.near * yuv.strides[1 + i], blend.near_weight,
       yuv.planes[1 + i] + blend.far * yuv.strides[1 + i], blend.far_weight, rows_[i].data() + kRowMargin);
    }
    HWY_DYNAMIC_DISPATCH(rgb_row)
    (factors, is_each ? nullptr : &weights, layout_.width, yuv.planes[0] + y * yuv.strides[0],
     rows_[0].data() + kRowMargin, rows_[1].data() + kRowMargin, rgb.data() + static_cast<std::size_t>(y) * row_bytes);
  }
}

RgbToYuv::RgbToYuv(const YuvLayout& layout) : layout_(layout) {
  HR_CHECK(layout.width >= 1 && layout.height >= 1);
  HR_CHECK(layout.chroma == Chroma::k444 || layout.chroma == Chroma::k420Center || layout.chroma == Chroma::k420Left);
  for (auto& row : sums_) row.assign(padded(layout.chroma_width()), 0);
}

void RgbToYuv::convert(std::span<const std::uint8_t> rgb, const YuvPlanes<std::uint8_t>& yuv) {
  const auto row_bytes = std::size_t{3} * static_cast<std::size_t>(layout_.width);
  HR_CHECK_EQ(rgb.size(), row_bytes * static_cast<std::size_t>(layout_.height));
  const auto row = [&](int y) { return rgb.data() + static_cast<std::size_t>(y) * row_bytes; };
  const ToYuvFactors factors = to_yuv(layout_);
  std::array<std::int16_t*, 6> sums{};
  std::ranges::transform(sums_, sums.begin(), [](auto& sum) { return sum.data() + kRowMargin; });
  for (int y = 0; y < layout_.height; ++y)
    HWY_DYNAMIC_DISPATCH(luma_row)(factors, layout_.width, row(y), yuv.planes[0] + y * yuv.strides[0]);
  for (int y = 0; y < layout_.chroma_height(); ++y) {
    std::uint8_t* const cb = yuv.planes[1] + y * yuv.strides[1];
    std::uint8_t* const cr = yuv.planes[2] + y * yuv.strides[2];
    if (layout_.chroma == Chroma::k444) {
      HWY_DYNAMIC_DISPATCH(chroma_row)(factors, layout_.width, row(y), cb, cr);
      continue;
    }
    HWY_DYNAMIC_DISPATCH(sum_rows)
    (layout_.width, row(2 * y), row(std::min(2 * y + 1, layout_.height - 1)), sums.data());
    HWY_DYNAMIC_DISPATCH(chroma_of_sums)
    (factors, layout_.chroma == Chroma::k420Left, layout_.chroma_width(), sums.data(), cb, cr);
  }
}

}  // namespace headroom
#endif  // HWY_ONCE
