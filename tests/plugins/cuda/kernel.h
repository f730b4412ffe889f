/* CUDA C as C++ for the host: what the stand-in for NVRTC puts before a source. Blocks run one after the other. The threads of
 * a block are fibers where the source has barriers or shuffles, and a loop where it has none. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if STANDIN_FIBERS
#include <setjmp.h>
#include <ucontext.h>
#endif

struct standin_index {
    unsigned x, y, z;
};
static thread_local standin_index threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

template <class To, class From> static inline To standin_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "");
    memcpy(&to, &from, sizeof to);
    return to;
}
#define __uint_as_float standin_bits<float, unsigned>
#define __float_as_uint standin_bits<unsigned, float>
#define __longlong_as_double standin_bits<double, long long>
#define __double_as_longlong standin_bits<long long, double>
static inline int __clzll(long long a) { return a ? __builtin_clzll((unsigned long long)a) : 64; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
/* One thread of a block runs at a time. */
static inline unsigned atomicAdd(unsigned *at, unsigned more) {
    const unsigned old = *at;
    *at = old + more;
    return old;
}
#define __fsqrt_rn sqrtf
#define __fmaf_rn fmaf
#define __dsqrt_rn sqrt
#define __fma_rn fma

/* What the source has in PTX: in double, where every product of two halves is exact, and rounded once. */
struct standin_f16 {
    enum { digits = 10, bias = 15 };
};
struct standin_bf16 {
    enum { digits = 7, bias = 127 };
};

template <class H> static double standin_value(unsigned bits) {
    const int exponent = (bits & 0x7fff) >> H::digits, mantissa = bits & ((1 << H::digits) - 1);
    const double size = exponent == 2 * H::bias + 1 ? (mantissa ? NAN : INFINITY)
                        : exponent == 0             ? ldexp(mantissa, 1 - H::bias - H::digits)
                                        : ldexp(mantissa + (1 << H::digits), exponent - H::bias - H::digits);
    return bits & 0x8000 ? -size : size;
}
template <class H> static unsigned standin_rounded(double value) {
    const unsigned sign = signbit(value) ? 0x8000 : 0, infinity = (2 * H::bias + 1) << H::digits;
    if (value != value)
        return 0x7fff;
    if (value == 0 || isinf(value))
        return sign | (value == 0 ? 0 : infinity);
    int exponent;
    frexp(value, &exponent);
    exponent = exponent - 1 < 1 - H::bias ? 1 - H::bias : exponent - 1;
    /* Digits that carry raise the exponent; without the leading one it is 0. */
    const double count = nearbyint(ldexp(fabs(value), H::digits - exponent));
    const double bits = count + ldexp(exponent + H::bias - 1, H::digits);
    return sign | (bits < infinity ? (unsigned)bits : infinity);
}
/* A sum whose last bit keeps whether it is exact, so that the next rounding is the only one. */
static double standin_sum(double a, double b) {
    const double sum = a + b, part = sum - a, rest = (a - (sum - part)) + (b - part);
    const uint64_t bits = standin_bits<uint64_t>(sum);
    const bool cut = (rest > 0 || rest < 0) && !(bits & 1);
    return cut ? standin_bits<double>((rest > 0) == (sum > 0) ? bits + 1 : bits - 1) : sum;
}
static double standin_max(double a, double b) { return a != a || b != b ? NAN : a > b || (a == b && !signbit(a)) ? a : b; }

static float standin_cvt_f32_f16(uint16_t bits) { return (float)standin_value<standin_f16>(bits); }
static uint16_t standin_cvt_rn_f16_f32(float value) { return (uint16_t)standin_rounded<standin_f16>(value); }
/* `a` and `b` stand for the values of a lane. */
#define STANDIN_PAIR(name, type, value)                                                                                \
    static unsigned standin_##name(unsigned x, unsigned y) {                                                           \
        unsigned pair = 0;                                                                                             \
        for (int at = 0; at < 32; at += 16) {                                                                          \
            const double a = standin_value<standin_##type>(x >> at & 0xffff);                                          \
            const double b = standin_value<standin_##type>(y >> at & 0xffff);                                          \
            pair |= standin_rounded<standin_##type>(value) << at;                                                      \
        }                                                                                                              \
        return pair;                                                                                                   \
    }
#define STANDIN_PAIRS(type)                                                                                            \
    static unsigned standin_cvt_rn_##type##x2_f32(float high, float low) {                                             \
        return standin_rounded<standin_##type>(high) << 16 | standin_rounded<standin_##type>(low);                     \
    }                                                                                                                  \
    STANDIN_PAIR(add_rn_##type##x2, type, standin_sum(a, b))                                                           \
    STANDIN_PAIR(sub_rn_##type##x2, type, standin_sum(a, -b))                                                          \
    STANDIN_PAIR(mul_rn_##type##x2, type, a *b)                                                                        \
    STANDIN_PAIR(max_NaN_##type##x2, type, standin_max(a, b))                                                          \
    STANDIN_PAIR(min_NaN_##type##x2, type, -standin_max(-a, -b))
STANDIN_PAIRS(f16)
STANDIN_PAIRS(bf16)
static unsigned standin_fma_rn_bf16x2(unsigned x, unsigned y, unsigned z) {
    unsigned pair = 0;
    for (int at = 0; at < 32; at += 16) {
        const double product = standin_value<standin_bf16>(x >> at & 0xffff) * standin_value<standin_bf16>(y >> at & 0xffff);
        pair |= standin_rounded<standin_bf16>(standin_sum(product, standin_value<standin_bf16>(z >> at & 0xffff))) << at;
    }
    return pair;
}

#if STANDIN_FIBERS
enum { STANDIN_THREADS = 1024, STANDIN_STACK = 64 << 10, STANDIN_WARP = 32 };

/* Those that wait for each other: a block, a warp. */
struct standin_group {
    unsigned size, arrived, generation;
};

struct standin_block {
    /* `swapcontext` calls the system each time, for the signal mask. */
    jmp_buf scheduler, fibers[STANDIN_THREADS];
    bool began[STANDIN_THREADS], ended[STANDIN_THREADS];
    standin_group all, warps[STANDIN_THREADS / STANDIN_WARP];
    uint64_t exchange[STANDIN_THREADS];
    /* That began, in all. */
    unsigned blocks;
    void (*body)(void **);
    void **arguments;
    char stacks[STANDIN_THREADS][STANDIN_STACK];
};
static thread_local standin_block *standin;

static __attribute__((noinline)) void standin_leave(unsigned own) {
    if (!_setjmp(standin->fibers[own]))
        _longjmp(standin->scheduler, 1);
}

static void standin_meet(standin_group &group) {
    const unsigned generation = group.generation, own = threadIdx.x;
    if (++group.arrived == group.size) {
        group.arrived = 0;
        group.generation++;
        return;
    }
    while (group.generation == generation)
        standin_leave(own);
}
#define __syncthreads() standin_meet(standin->all)
static int __syncthreads_or(int so) {
    standin->exchange[threadIdx.x] = so != 0;
    standin_meet(standin->all);
    for (unsigned i = 0; i < standin->all.size; i++)
        so |= standin->exchange[i] != 0;
    standin_meet(standin->all);
    return so;
}

template <class T> static T standin_shuffle(T value, unsigned from) {
    const unsigned own = threadIdx.x;
    standin_group &warp = standin->warps[own / STANDIN_WARP];
    memcpy(&standin->exchange[own], &value, sizeof value);
    standin_meet(warp);
    memcpy(&value, &standin->exchange[from], sizeof value);
    standin_meet(warp);
    return value;
}
template <class T> static T __shfl_down_sync(unsigned, T value, unsigned reach) {
    const unsigned own = threadIdx.x;
    return standin_shuffle(value, own % STANDIN_WARP + reach < STANDIN_WARP ? own + reach : own);
}
template <class T> static T __shfl_xor_sync(unsigned, T value, unsigned with) { return standin_shuffle(value, threadIdx.x ^ with); }
template <class T> static T __shfl_sync(unsigned, T value, unsigned lane) {
    return standin_shuffle(value, threadIdx.x / STANDIN_WARP * STANDIN_WARP + lane);
}

#include "matrix.h"

/* It runs one block after the other. */
static void standin_fiber() {
    for (const unsigned own = threadIdx.x;;) {
        standin->body(standin->arguments);
        standin->ended[own] = true;
        standin_leave(own);
    }
}

static __attribute__((noinline)) void standin_enter(unsigned fiber) {
    if (_setjmp(standin->scheduler))
        return;
    if (standin->began[fiber])
        _longjmp(standin->fibers[fiber], 1);
    standin->began[fiber] = true;
    ucontext_t first;
    getcontext(&first);
    first.uc_stack.ss_sp = standin->stacks[fiber];
    first.uc_stack.ss_size = STANDIN_STACK;
    makecontext(&first, standin_fiber, 0);
    setcontext(&first);
}

static void standin_block_of(void (*body)(void **), void **arguments) {
    if (!standin)
        standin = (standin_block *)calloc(1, sizeof *standin);
    standin->body = body;
    standin->arguments = arguments;
    standin->blocks++;
    const unsigned count = blockDim.x;
    standin->all = {count, 0, 0};
    for (unsigned i = 0; i < count; i++) {
        if (i % STANDIN_WARP == 0)
            standin->warps[i / STANDIN_WARP] = {count - i < STANDIN_WARP ? count - i : STANDIN_WARP, 0, 0};
        standin->ended[i] = false;
    }
    for (unsigned left = count; left > 0;)
        for (unsigned i = 0; i < count; i++) {
            if (standin->ended[i])
                continue;
            threadIdx = {i, 0, 0};
            standin_enter(i);
            left -= standin->ended[i];
        }
}
#else
static void standin_block_of(void (*body)(void **), void **arguments) {
    for (unsigned i = 0; i < blockDim.x; i++) {
        threadIdx = {i, 0, 0};
        body(arguments);
    }
}
#endif

template <size_t... I> struct standin_list {};
template <size_t N, size_t... I> struct standin_count : standin_count<N - 1, N - 1, I...> {};
template <size_t... I> struct standin_count<0, I...> {
    typedef standin_list<I...> type;
};
template <auto kernel> struct standin_kernel;
template <class... A, void (*kernel)(A...)> struct standin_kernel<kernel> {
    template <size_t... I> static void call(void **arguments, standin_list<I...>) { kernel(*(A *)arguments[I]...); }
    static void body(void **arguments) { call(arguments, typename standin_count<sizeof...(A)>::type()); }
    static void run(unsigned blocks, unsigned threads, void **arguments) {
        blockDim = {threads, 1, 1};
        gridDim = {blocks, 1, 1};
        for (unsigned block = 0; block < blocks; block++) {
            blockIdx = {block, 0, 0};
            standin_block_of(body, arguments);
        }
    }
    static unsigned sizes(size_t *out) {
        const size_t all[] = {sizeof(A)...};
        memcpy(out, all, sizeof all);
        return sizeof...(A);
    }
};
#define STANDIN_ENTRY(name)                                                                                            \
    extern "C" __attribute__((visibility("default"))) void standin_run_##name(unsigned blocks, unsigned threads,       \
                                                                              void **arguments) {                      \
        standin_kernel<name>::run(blocks, threads, arguments);                                                         \
    }                                                                                                                  \
    extern "C" __attribute__((visibility("default"))) unsigned standin_sizes_##name(size_t *out) {                     \
        return standin_kernel<name>::sizes(out);                                                                       \
    }
