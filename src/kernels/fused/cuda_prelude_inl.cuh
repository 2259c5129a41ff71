// The prelude of generated kernels, in addition to the functions of formulas: reads and writes of packs,
// conversions, and cooperation of the threads of a row. It is text (HR_DEVICE_CODE) for a compiler without headers;
// no line may be a preprocessor directive.

// clang-format off
HR_DEVICE_CODE(
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using i64 = long long;

// Lets the next kernel begin, and waits until all before this one have ended (backends/cuda/early_launch.cuh).
__device__ __forceinline__ void wait_for_previous() {
  if constexpr (__CUDA_ARCH__ >= 900)
    asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
}

// B bytes as words, the first element in the lowest bits; an access takes up to 16 bytes.
template <int B>
struct Raw {
  u32 words[(B + 3) / 4];
};
template <int B>
__device__ __forceinline__ void read(Raw<B>& raw, const u8* from) {
  if constexpr (B >= 16) {
    for (int i = 0; i < B / 16; ++i) {
      const uint4 part = reinterpret_cast<const uint4*>(from)[i];
      raw.words[4 * i] = part.x;
      raw.words[4 * i + 1] = part.y;
      raw.words[4 * i + 2] = part.z;
      raw.words[4 * i + 3] = part.w;
    }
  } else if constexpr (B == 8) {
    const uint2 part = *reinterpret_cast<const uint2*>(from);
    raw.words[0] = part.x;
    raw.words[1] = part.y;
  } else if constexpr (B == 4) {
    raw.words[0] = *reinterpret_cast<const u32*>(from);
  } else if constexpr (B == 2) {
    raw.words[0] = *reinterpret_cast<const u16*>(from);
  } else {
    raw.words[0] = *from;
  }
}
template <int B>
__device__ __forceinline__ void write(const Raw<B>& raw, u8* to) {
  if constexpr (B >= 16) {
    for (int i = 0; i < B / 16; ++i)
      reinterpret_cast<uint4*>(to)[i] =
          make_uint4(raw.words[4 * i], raw.words[4 * i + 1], raw.words[4 * i + 2], raw.words[4 * i + 3]);
  } else if constexpr (B == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(raw.words[0], raw.words[1]);
  } else if constexpr (B == 4) {
    *reinterpret_cast<u32*>(to) = raw.words[0];
  } else if constexpr (B == 2) {
    *reinterpret_cast<u16*>(to) = static_cast<u16>(raw.words[0]);
  } else {
    *to = static_cast<u8>(raw.words[0]);
  }
}

// Asynchronous copies to shared memory. A commit group holds the copies that a thread issued since its previous
// group.
__device__ __forceinline__ void fetch_16_bytes(u8* to_shared, const u8* from) {
  asm volatile("{.reg .u64 at; .reg .u32 near; cvta.to.shared.u64 at, %0; cvt.u32.u64 near, at;"
               "cp.async.cg.shared.global [near], [%1], 16;}" ::"l"(to_shared), "l"(from) : "memory");
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait_for_all_groups_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// The place that is stored at `index`, clamped to 0 <= place < places.
template <class T>
__device__ __forceinline__ i64 place_in(const u8* index, i64 places) {
  const i64 place = *reinterpret_cast<const T*>(index);
  return place < 0 ? 0 : place < places ? place : places - 1;
}

__device__ __forceinline__ float half_to_float(u32 bits) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(static_cast<u16>(bits)));
  return wide;
}

// A dtype: its bytes, and elements to and from words.
struct F32 {
  static constexpr int kBytes = 4;
  static __device__ __forceinline__ float get(const u32* words, int i) { return __uint_as_float(words[i]); }
  static __device__ __forceinline__ void put(u32* words, int i, float value) { words[i] = __float_as_uint(value); }
};
struct Bf16 {
  static constexpr int kBytes = 2;
  static constexpr bool kIsBf16 = true;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000U);
  }
  static __device__ __forceinline__ u32 pair(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  static __device__ __forceinline__ float rounded(float value) { return __uint_as_float(pair(value, 0.0F) << 16); }
};
struct F16 {
  static constexpr int kBytes = 2;
  static constexpr bool kIsBf16 = false;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    return half_to_float(i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16);
  }
  static __device__ __forceinline__ u32 pair(float low, float high) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
  }
  static __device__ __forceinline__ float rounded(float value) { return half_to_float(pair(value, 0.0F)); }
};
struct F8E4M3 {
  static constexpr int kBytes = 1;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    u32 pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<u16>(words[i / 4] >> (8 * (i % 4)) & 0xFFU)));
    return half_to_float(pair);
  }
  static __device__ __forceinline__ u32 pair(float low, float high) {
    u16 packed;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
    return packed;
  }
};
struct I8 {
  static constexpr int kBytes = 1;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    return static_cast<float>(static_cast<signed char>(words[i / 4] >> (8 * (i % 4))));
  }
  static __device__ __forceinline__ u32 one(float value) {
    int rounded;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return static_cast<u32>(rounded) & 0xFFU;
  }
  static __device__ __forceinline__ u32 pair(float low, float high) { return one(low) | one(high) << 8; }
};
// I8 of numbers of magnitudes up to 127, as those of quantized rows. 1.5 * 2^23 plus such a number ends in its integer,
// rounded to nearest even, and conversions run at an eighth of the rate of additions.
struct QuantizedI8 {
  static constexpr int kBytes = 1;
  static __device__ __forceinline__ u32 one(float value) { return __float_as_uint(__fadd_rn(value, 12582912.0F)); }
  static __device__ __forceinline__ u32 pair(float low, float high) {
    return __byte_perm(one(low), one(high), 0x40) & 0xFFFFU;
  }
};
struct U8 {
  static constexpr int kBytes = 1;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    return static_cast<float>(words[i / 4] >> (8 * (i % 4)) & 0xFFU);
  }
  static __device__ __forceinline__ u32 one(float value) {
    u32 rounded;
    asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return rounded & 0xFFU;
  }
  static __device__ __forceinline__ u32 pair(float low, float high) { return one(low) | one(high) << 8; }
};

template <class T, int W>
__device__ __forceinline__ void expand(const Raw<T::kBytes * W>& raw, float (&to)[W]) {
  for (int i = 0; i < W; ++i) to[i] = T::get(raw.words, i);
}
// Zeros where not `are_wanted`.
template <class T, int W>
__device__ __forceinline__ void store(const float (&from)[W], u8* to, bool are_wanted = true) {
  Raw<T::kBytes * W> raw;
  if constexpr (T::kBytes == 4) {
    for (int i = 0; i < W; ++i) T::put(raw.words, i, from[i]);
  } else if constexpr (W == 1) {
    raw.words[0] = T::pair(from[0], 0.0F);
  } else if constexpr (T::kBytes == 2) {
    for (int i = 0; i < W; i += 2) raw.words[i / 2] = T::pair(from[i], from[i + 1]);
  } else if constexpr (W == 2) {
    raw.words[0] = T::pair(from[0], from[1]);
  } else {
    for (int i = 0; i < W; i += 4) raw.words[i / 4] = T::pair(from[i], from[i + 1]) | T::pair(from[i + 2], from[i + 3]) << 16;
  }
  for (int i = 0; i < (T::kBytes * W + 3) / 4; ++i) raw.words[i] = are_wanted ? raw.words[i] : 0;
  write<T::kBytes * W>(raw, to);
}

// How numbers of a row are joined, and of 16 bits those in both halves of two words at once: to NaN where one is.
struct Sum {
  static __device__ __forceinline__ float neutral() { return 0.0F; }
  static __device__ __forceinline__ float join(float a, float b) { return a + b; }
};
struct Max {
  static __device__ __forceinline__ float neutral() { return __uint_as_float(0xFF800000U); }
  static __device__ __forceinline__ float join(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
  }
  template <class T>
  static __device__ __forceinline__ u32 join_pairs(u32 a, u32 b) {
    if constexpr (T::kIsBf16)
      asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    else
      asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
};
struct Min {
  static __device__ __forceinline__ float neutral() { return __uint_as_float(0x7F800000U); }
  static __device__ __forceinline__ float join(float a, float b) {
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    return smaller;
  }
  template <class T>
  static __device__ __forceinline__ u32 join_pairs(u32 a, u32 b) {
    if constexpr (T::kIsBf16)
      asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    else
      asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
};
struct Peak {
  static __device__ __forceinline__ float neutral() { return 0.0F; }
  static __device__ __forceinline__ float join(float a, float b) { return Max::join(a, fabsf(b)); }
  template <class T>
  static __device__ __forceinline__ u32 join_pairs(u32 a, u32 b) {
    return Max::join_pairs<T>(a, b & 0x7FFF7FFFU);
  }
};

// The count of numbers, their mean, and the sum of squared deviations; merged as by Chan, Golub and LeVeque (1979).
struct Moments {
  float count;
  float mean;
  float squares;
};
__device__ __forceinline__ Moments join_moments(Moments a, Moments b, float share) {
  const float apart = b.mean - a.mean;
  return {a.count + b.count, fmaf(apart, share, a.mean), a.squares + fmaf(apart * apart, a.count * share, b.squares)};
}

// The moments of numbers from the sums of their differences from the first number, and of the squares of these
// differences.
__device__ __forceinline__ Moments moments_beyond(float first, float sum, float squares, float count) {
  const float mean = count > 0.0F ? __fdividef(sum, count) : 0.0F;
  return {count, first + mean, fmaf(-sum, mean, squares)};
}

// Reduces over the threads of a row within one warp; all of them get the result.
template <class How, int T>
__device__ __forceinline__ float join_lanes(float value) {
  for (int lane = (T < 32 ? T : 32) / 2; lane > 0; lane /= 2)
    value = How::join(value, __shfl_xor_sync(0xFFFFFFFFU, value, lane));
  return value;
}
template <int T, bool are_equal>
__device__ __forceinline__ void join_lanes(Moments& value) {
  for (int lane = (T < 32 ? T : 32) / 2; lane > 0; lane /= 2) {
    Moments other{value.count, __shfl_xor_sync(0xFFFFFFFFU, value.mean, lane),
                  __shfl_xor_sync(0xFFFFFFFFU, value.squares, lane)};
    if constexpr (are_equal) {
      value = join_moments(value, other, 0.5F);
    } else {
      other.count = __shfl_xor_sync(0xFFFFFFFFU, value.count, lane);
      if (other.count > 0.0F) value = join_moments(value, other, __fdividef(other.count, value.count + other.count));
    }
  }
}
// Reduces over the warps of a row, each of which has stored its partial result.
template <class How, int N, class Value>
__device__ __forceinline__ Value join_warps(const Value (&partial)[N]) {
  Value value = partial[0];
  for (int warp = 1; warp < N; ++warp) value = How::join(value, partial[warp]);
  return value;
}
template <bool are_equal, int N>
__device__ __forceinline__ Moments join_warps(const Moments (&partial)[N], float count) {
  Moments value = partial[0];
  if constexpr (are_equal) value.count = count;
  for (int warp = 1; warp < N; ++warp) {
    Moments other = partial[warp];
    if constexpr (are_equal) {
      other.count = count;
      value = join_moments(value, other, 1.0F / static_cast<float>(warp + 1));
    } else if (other.count > 0.0F) {
      value = join_moments(value, other, __fdividef(other.count, value.count + other.count));
    }
  }
  return value;
}

// e^a for a <= 0: in sums of such terms, next to 1, as accurate as expf.
__device__ __forceinline__ float exp_below(float a) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(a * 1.4426950408889634F));
  return power;
}

// How a row of that largest magnitude is quantized; ops.def says so under quantize.
__device__ __forceinline__ float scale_of(float peak, float largest) {
  return peak < 0x1p-100F ? 1.0F : __fdiv_rn(peak, largest);
}
__device__ __forceinline__ float inverse_of(float peak, float largest) {
  return peak >= 0x1p-100F && peak <= 3.402823466e38F ? __fdiv_rn(largest, peak) : 0.0F;
}
)
// clang-format on
