/* CUDA C as C++ for the host: what the stand-in for NVRTC puts before a source. Blocks run one after the other. The threads of
 * a block are fibers where the source has barriers or shuffles, and a loop where it has none. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if STANDIN_FIBERS
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
#define __launch_bounds__(threads)
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

/* The three conversions that the source has in PTX. */
static inline float standin_f32_of_f16(uint16_t bits) {
    const unsigned sign = (unsigned)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 31)
        return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) {
        const float size = (float)mantissa * 5.9604644775390625e-8f;
        return sign ? -size : size;
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
}
static inline uint16_t standin_f16_of_f32(float value) {
    const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return 0x7fff;
    if (size >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00);
    /* Below the least normal number the sum rounds at the right bit. */
    if (size < 0x38800000u)
        return (uint16_t)(sign | (__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000u));
    const unsigned rounded = size - 0x38000000u + 0xfffu + (size >> 13 & 1);
    return (uint16_t)(sign | rounded >> 13);
}
static inline uint16_t standin_bf16_of_f32(float value) {
    const unsigned bits = __float_as_uint(value);
    return value != value ? 0x7fff : (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#if STANDIN_FIBERS
enum { STANDIN_THREADS = 1024, STANDIN_STACK = 64 << 10, STANDIN_WARP = 32 };

/* Those that wait for each other: a block, a warp. */
struct standin_group {
    unsigned size, arrived, generation;
};

struct standin_block {
    ucontext_t scheduler, fibers[STANDIN_THREADS];
    bool ended[STANDIN_THREADS];
    standin_group all, warps[STANDIN_THREADS / STANDIN_WARP];
    uint64_t exchange[STANDIN_THREADS];
    void (*body)(void **);
    void **arguments;
    char stacks[STANDIN_THREADS][STANDIN_STACK];
};
static thread_local standin_block *standin;

static void standin_meet(standin_group &group) {
    const unsigned generation = group.generation, own = threadIdx.x;
    if (++group.arrived == group.size) {
        group.arrived = 0;
        group.generation++;
        return;
    }
    while (group.generation == generation)
        swapcontext(&standin->fibers[own], &standin->scheduler);
}
#define __syncthreads() standin_meet(standin->all)

template <class T> static T __shfl_down_sync(unsigned, T value, unsigned reach) {
    const unsigned own = threadIdx.x, lane = own % STANDIN_WARP;
    standin_group &warp = standin->warps[own / STANDIN_WARP];
    memcpy(&standin->exchange[own], &value, sizeof value);
    standin_meet(warp);
    const unsigned from = lane + reach < STANDIN_WARP ? own + reach : own;
    memcpy(&value, &standin->exchange[from], sizeof value);
    standin_meet(warp);
    return value;
}

static void standin_fiber() {
    const unsigned own = threadIdx.x;
    standin->body(standin->arguments);
    standin->ended[own] = true;
    swapcontext(&standin->fibers[own], &standin->scheduler);
}

static void standin_block_of(void (*body)(void **), void **arguments) {
    if (!standin)
        standin = (standin_block *)calloc(1, sizeof *standin);
    standin->body = body;
    standin->arguments = arguments;
    const unsigned count = blockDim.x;
    standin->all = {count, 0, 0};
    for (unsigned i = 0; i < count; i++) {
        if (i % STANDIN_WARP == 0)
            standin->warps[i / STANDIN_WARP] = {count - i < STANDIN_WARP ? count - i : STANDIN_WARP, 0, 0};
        ucontext_t &fiber = standin->fibers[i];
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = standin->stacks[i];
        fiber.uc_stack.ss_size = STANDIN_STACK;
        makecontext(&fiber, standin_fiber, 0);
        standin->ended[i] = false;
    }
    for (unsigned left = count; left > 0;)
        for (unsigned i = 0; i < count; i++) {
            if (standin->ended[i])
                continue;
            threadIdx = {i, 0, 0};
            swapcontext(&standin->scheduler, &standin->fibers[i]);
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
