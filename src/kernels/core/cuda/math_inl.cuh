// Functions that the formulas of elementwise.def use on a GPU. The file is code for nvcc or, through
// HR_DEVICE_CODE, its own text, which generated kernels begin with. No line in it may be for the preprocessor. A
// division has an error of 2 units in the last place.

// clang-format off
HR_DEVICE_CODE(
struct Math {
  static __device__ __forceinline__ float fma(float a, float b, float c) { return fmaf(a, b, c); }
  static __device__ __forceinline__ float positive(float a) { return a < 0.0F ? 0.0F : a; }
  // Seven instructions, two of them special functions: log2(e) is part of the polynomial. Subnormal numbers matter
  // neither to the power, to which 1 is added, nor to the reciprocal: a result that small is next to nothing.
  static __device__ __forceinline__ float swish(float a, double /*tail*/, double c, double d) {
    constexpr double kLog2E = 1.4426950408889634;
    const float cubic = static_cast<float>(-kLog2E * d), linear = static_cast<float>(-kLog2E * c);
    float power = a * (d == 0 ? linear : fmaf(cubic * a, a, linear));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(power));
    float share = 1.0F + power;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(share));
    return a * share;
  }
  // a Phi(a) = max(a, 0) - |a| Phi(-|a|), where Phi(-z) = P(1 / (1 + 0.26 z)) exp(-z^2/2). P was fitted to 3.4e-7
  // of it up to 14.5; beyond, Phi is 0 in f32. This takes half the instructions of erff, and is exact in the
  // negative tail, where 1 + erf cancels. The last term makes NaN of -inf, as -inf times Phi's 0 does.
  static __device__ __forceinline__ float normal(float a) {
    const float z = fminf(fabsf(a), 14.0F);
    float t, tail;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(0.26F, z, 1.0F)));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail) : "f"(z * z * -0.72134752F));
    float p = fmaf(-0.0772622211F, t, 0.246433883F);
    p = fmaf(p, t, -0.135642036F);
    p = fmaf(p, t, 0.19237848F);
    p = fmaf(p, t, 0.0601196895F);
    p = fmaf(p, t, 0.111002582F);
    p = fmaf(p, t, 0.102933325F);
    p = fmaf(p, t, 3.61280074e-05F);
    return fmaf(-z * p, tail, a < 0.0F ? a * 0.0F : a);
  }

  static __device__ __forceinline__ float neg(float a) { return -a; }
  static __device__ __forceinline__ float abs(float a) { return fabsf(a); }
  static __device__ __forceinline__ float exp(float a) { return expf(a); }
  static __device__ __forceinline__ float log(float a) { return logf(a); }
  static __device__ __forceinline__ float sqrt(float a) { return sqrtf(a); }
  static __device__ __forceinline__ float rsqrt(float a) { return rsqrtf(a); }
  static __device__ __forceinline__ float tanh(float a) { return tanhf(a); }
  static __device__ __forceinline__ float sigmoid(float a) { return 1.0F / (1.0F + expf(-a)); }
  static __device__ __forceinline__ float erf(float a) { return erff(a); }
  static __device__ __forceinline__ float min(float a, float b) { return a < b || a != a ? a : b; }
  static __device__ __forceinline__ float max(float a, float b) { return a > b || a != a ? a : b; }
  static __device__ __forceinline__ float less(float a, float b) { return a < b ? 1.0F : 0.0F; }
  static __device__ __forceinline__ float less_equal(float a, float b) { return a <= b ? 1.0F : 0.0F; }
  static __device__ __forceinline__ float equal(float a, float b) { return a == b ? 1.0F : 0.0F; }

  // Long, and the same for elements of any pack: called, not unrolled. Right for arguments of any size.
  static __device__ __noinline__ float sin(float a) { return sinf(a); }
  static __device__ __noinline__ float cos(float a) { return cosf(a); }
  static __device__ __noinline__ float pow(float a, float b) { return powf(a, b); }
  static __device__ __noinline__ float mod(float a, float b) {
    const float rest = fmodf(a, b);
    return rest != 0.0F && (rest < 0.0F) != (b < 0.0F) ? rest + b : rest;
  }
};
)
// clang-format on
