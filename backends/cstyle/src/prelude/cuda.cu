typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;

#define TL_KERNEL extern "C" __global__
#define TL_FN static __device__ __forceinline__
#define TL_GLOBAL
#define TL_LOCAL __shared__
#define TL_RESTRICT __restrict__
#define TL_BARRIER __syncthreads()
#define TL_ITEM ((i32)threadIdx.x)
#define TL_GROUP blockIdx.x
#define TL_GROUPS gridDim.x
#define TL_PARALLEL
#define TL_UNROLL _Pragma("unroll")

template <class T, int N> struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) tl_pack { T at[N]; };
template <int N, class T> TL_FN void tl_load(T *to, const T *from) {
    const tl_pack<T, N> pack = *(const tl_pack<T, N> *)from;
    TL_UNROLL
    for (int v = 0; v < N; ++v) to[v] = pack.at[v];
}
template <int N, class T> TL_FN void tl_store(T *to, const T *from) {
    tl_pack<T, N> pack;
    TL_UNROLL
    for (int v = 0; v < N; ++v) pack.at[v] = from[v];
    *(tl_pack<T, N> *)to = pack;
}
#define TL_LOAD(count, to, from) tl_load<count>(to, from)
#define TL_STORE(count, to, from) tl_store<count>(to, from)

/* The value of the work-item `reach` further on in the warp. */
#define TL_SHIFT(type, value, reach) ((type)__shfl_down_sync(0xffffffffu, value, reach))

#define tl_f32_of_bits(x) __uint_as_float((u32)(x))
#define tl_bits_of_f32(x) __float_as_uint(x)
#define tl_leading_zeros(x) __clzll((i64)(x))
#define tl_mul_hi(a, b) __umulhi((u32)(a), (u32)(b))
#define tl_abs_f32 fabsf
#define tl_floor_f32 floorf
#define tl_ceil_f32 ceilf
#define tl_trunc_f32 truncf
#define tl_round_f32 rintf
#define tl_sqrt_f32 __fsqrt_rn
#define tl_rem_f32 fmodf
#define tl_fma_f32 __fmaf_rn

typedef double f64;
#define tl_f64_of_bits(x) __longlong_as_double((i64)(x))
#define tl_bits_of_f64(x) ((u64)__double_as_longlong(x))
#define tl_abs_f64 fabs
#define tl_floor_f64 floor
#define tl_ceil_f64 ceil
#define tl_trunc_f64 trunc
#define tl_round_f64 rint
#define tl_sqrt_f64 __dsqrt_rn
#define tl_rem_f64 fmod
#define tl_fma_f64 __fma_rn
