#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;

#define tl_f64_of_bits(x) as_double((u64)(x))
#define tl_bits_of_f64(x) as_ulong(x)
#define tl_abs_f64 fabs
#define tl_floor_f64 floor
#define tl_ceil_f64 ceil
#define tl_trunc_f64 trunc
#define tl_sqrt_f64 sqrt
#define tl_rem_f64 fmod
#define tl_fma_f64 fma
TL_FN f64 tl_tanh_f64(f64 a) { return fabs(a) > 19.1 ? copysign(1.0, a) : tanh(a); }
TL_FN f64 tl_round_f64(f64 a) {
    const f64 size = fabs(a), whole = (size + 0x1p52) - 0x1p52;
    return size < 0x1p52 ? copysign(whole, a) : a;
}
