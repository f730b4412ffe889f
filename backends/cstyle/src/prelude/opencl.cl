#pragma OPENCL FP_CONTRACT OFF
typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;

#define TL_KERNEL __kernel
#define TL_FN static inline
#define TL_GLOBAL __global
#define TL_LOCAL __local
#define TL_RESTRICT restrict
#define TL_BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define TL_ITEM ((i32)get_local_id(0))
#define TL_GROUP get_group_id(0)
#define TL_GROUPS get_num_groups(0)
#define TL_LOAD(count, to, from) vstore##count(vload##count(0, from), 0, to)
#define TL_STORE(count, to, from) vstore##count(vload##count(0, from), 0, to)
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define TL_PARALLEL _Pragma("clang loop vectorize(assume_safety)")
#else
#define TL_PARALLEL
#endif
#define TL_UNROLL _Pragma("unroll")

#define tl_f32_of_bits(x) as_float((u32)(x))
#define tl_bits_of_f32(x) as_uint(x)
#define tl_leading_zeros(x) clz((u64)(x))
#define tl_mul_hi(a, b) ((u32)(((u64)(a) * (b)) >> 32))
#define tl_abs_f32 fabs
#define tl_floor_f32 floor
#define tl_ceil_f32 ceil
#define tl_trunc_f32 trunc
#define tl_sqrt_f32 sqrt
#define tl_rem_f32 fmod
#define tl_fma_f32 fma

/* PoCL's `tanh` stays an ulp below 1, so that `1 - tanh(x)` is never 0. */
TL_FN f32 tl_tanh_f32(f32 a) { return fabs(a) > 9.1f ? copysign(1.0f, a) : tanh(a); }
TL_FN u16 tl_bf16_of_f32(f32 value) {
    const u32 bits = tl_bits_of_f32(value);
    return (u16)(value != value ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
/* Not `rint`: PoCL's converts to int on the way, which is undefined for large constants. */
TL_FN f32 tl_round_f32(f32 a) {
    const f32 size = fabs(a), whole = (size + 0x1p23f) - 0x1p23f;
    return size < 0x1p23f ? copysign(whole, a) : a;
}
