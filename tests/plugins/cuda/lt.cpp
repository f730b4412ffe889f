/* Stand-in for cuBLASLt: products by plain loops, in the order of a stream of the stand-in for libcuda. */

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Of the stand-in for libcuda. */
extern "C" unsigned standin_push(void *stream, void (*run)(void *), void *data,
                                 void (*drop)(void *));
extern "C" int standin_memory(uint64_t address, size_t bytes);
extern "C" unsigned cuDeviceGetAttribute(int *out, int key, int device);
extern "C" int standin_device();
extern "C" void standin_spoil(void *stream);

enum { OK = 0, NO_CONTEXT = 1, BAD = 7, REFUSED = 15 };

/* Of the library's headers. */
enum { EPILOGUE_NONE = 1, EPILOGUE_BIAS = 4 };

struct Desc {
    unsigned compute, scale;
    unsigned turn[2] = {0, 0};
    unsigned epilogue = EPILOGUE_NONE;
    int bias_type = -1;
    uint64_t bias = 0;
};
/* Multiples that addresses are promised to be, of the four matrices. */
struct Preference {
    unsigned alignment[4] = {256, 256, 256, 256};
};
struct Layout {
    unsigned type;
    uint64_t rows, columns;
    int64_t ld, offset = 0;
    int count = 1;
};
struct Choice {
    uint64_t algo[8];
    size_t workspace;
    unsigned state;
    float waves;
    int reserved[4];
};

EXPORT unsigned cublasLtCreate(void **out) {
    if (standin_device() < 0)
        return NO_CONTEXT;
    *out = new int(standin_device());
    return OK;
}
EXPORT unsigned cublasLtDestroy(void *handle) {
    delete (int *)handle;
    return OK;
}
EXPORT size_t cublasLtGetVersion() { return 130000; }
EXPORT unsigned cublasLtMatmulDescCreate(Desc **out, unsigned compute, unsigned scale) {
    *out = new Desc{compute, scale};
    return OK;
}
EXPORT unsigned cublasLtMatmulDescDestroy(Desc *desc) {
    delete desc;
    return OK;
}
/* Lets attributes of biases be refused on this thread (1), or products with one when they are queued, which ends a capture (2). */
static thread_local int refusing;
EXPORT void standin_lt_refuse(int what) { refusing = what; }

EXPORT unsigned cublasLtMatmulDescSetAttribute(Desc *desc, unsigned key, const void *value, size_t bytes) {
    if (refusing == 1 && key != 3 && key != 4)
        return BAD;
    void *field = key == 3    ? (void *)&desc->turn[0]
                  : key == 4  ? (void *)&desc->turn[1]
                  : key == 7  ? (void *)&desc->epilogue
                  : key == 8  ? (void *)&desc->bias
                  : key == 26 ? (void *)&desc->bias_type
                              : nullptr;
    if (!field || bytes != (key == 8 ? 8 : 4))
        return BAD;
    memcpy(field, value, bytes);
    return OK;
}
EXPORT unsigned cublasLtMatrixLayoutCreate(Layout **out, unsigned type, uint64_t rows, uint64_t columns, int64_t ld) {
    if (rows == 0 || columns == 0 || ld < (int64_t)rows)
        return BAD;
    *out = new Layout{type, rows, columns, ld};
    return OK;
}
EXPORT unsigned cublasLtMatrixLayoutDestroy(Layout *layout) {
    delete layout;
    return OK;
}
EXPORT unsigned cublasLtMatrixLayoutSetAttribute(Layout *layout, unsigned key, const void *value, size_t bytes) {
    if (key == 5 && bytes == 4)
        memcpy(&layout->count, value, 4);
    else if (key == 6 && bytes == 8)
        memcpy(&layout->offset, value, 8);
    else
        return BAD;
    return OK;
}
EXPORT unsigned cublasLtMatmulPreferenceCreate(Preference **out) {
    *out = new Preference();
    return OK;
}
EXPORT unsigned cublasLtMatmulPreferenceDestroy(Preference *preference) {
    delete preference;
    return OK;
}
EXPORT unsigned cublasLtMatmulPreferenceSetAttribute(Preference *preference, unsigned key, const void *value,
                                                     size_t bytes) {
    if (key >= 5 && key <= 8 && bytes == 4)
        memcpy(&preference->alignment[key - 5], value, 4);
    else if (key != 1 || bytes != 8)
        return BAD;
    return OK;
}

/* Whether the context of a handle's device is current. */
static bool is_current(const void *handle) { return *(const int *)handle == standin_device(); }

static bool fits(const Desc *desc, const Layout *a, const Layout *b, const Layout *d) {
    uint64_t m = desc->turn[0] ? a->columns : a->rows, k = desc->turn[0] ? a->rows : a->columns;
    uint64_t inner = desc->turn[1] ? b->columns : b->rows, n = desc->turn[1] ? b->rows : b->columns;
    return k == inner && m == d->rows && n == d->columns && a->count == d->count && b->count == d->count;
}

/* As the library's: products of 8-bit floats take the first operand transposed and the second as it is, not two of e5m2, and
 * multiples of 16 bytes everywhere, from compute capability 8.9 on. */
static bool takes_f8(const Desc *desc, const Layout *a, const Layout *b, const Layout *d, uint64_t alignment) {
    int major = 0, minor = 0;
    cuDeviceGetAttribute(&major, 75, 0);
    cuDeviceGetAttribute(&minor, 76, 0);
    const bool wide = d->type == 0, narrow = d->type == 2 || d->type == 14;
    const int64_t size = wide ? 4 : 2;
    const uint64_t extents = a->rows | a->columns | b->rows | b->columns | d->rows | d->columns;
    const uint64_t steps = a->ld | a->offset | b->ld | b->offset | d->ld * size | d->offset * size;
    return major * 10 + minor >= 89 && desc->compute == 68 && desc->scale == 0 && desc->turn[0] && !desc->turn[1] &&
           a->type >= 28 && b->type >= 28 && a->type + b->type < 58 && (wide || narrow) && alignment >= 16 &&
           extents % 16 == 0 && steps % 16 == 0;
}

/* Whether an algorithm takes what a description asks for after the sums. Algorithm 1 takes a bias of whole vectors alone. */
static bool takes(const Desc *desc, const Layout *d, uint64_t algo) {
    if (desc->epilogue == EPILOGUE_NONE)
        return true;
    const bool known = desc->bias_type == -1 || desc->bias_type == (int)d->type;
    return desc->epilogue == EPILOGUE_BIAS && known && desc->bias && desc->bias % 16 == 0 && d->type <= 1 && (algo == 2 || d->rows % 4 == 0);
}

/* Bytes of scratch memory: more for a bias at an odd place. */
static size_t room_for(const Desc *desc) {
    return desc->epilogue == EPILOGUE_BIAS && desc->bias % 256 ? 8192 : 4096;
}

/* Algorithm 2, which sums in two halves, is what it likes better for a bias, for outputs with gaps and for addresses at odd places:
 * who asks for another product gets other bits. An algorithm says what alignment it needs. */
EXPORT unsigned cublasLtMatmulAlgoGetHeuristic(void *handle, const Desc *desc, const Layout *a, const Layout *b, const Layout *c,
                                               const Layout *d, const Preference *preference, int room, Choice *out,
                                               int *found) {
    if (!is_current(handle))
        return NO_CONTEXT;
    if (!fits(desc, a, b, d) || c != d || room < 1)
        return BAD;
    *found = 0;
    /* As the library's: products of 8-bit integers take the first operand transposed, columns of whole words. */
    if (desc->compute == 72 && (!desc->turn[0] || desc->turn[1] || a->ld % 4 || b->ld % 4))
        return REFUSED;
    uint64_t least = 16;
    for (unsigned alignment : preference->alignment)
        least = alignment < least ? alignment : least;
    if ((a->type >= 28 || b->type >= 28) && !takes_f8(desc, a, b, d, least))
        return REFUSED;
    const bool odd = least < 16 || d->ld != (int64_t)d->rows || desc->epilogue != EPILOGUE_NONE;
    *out = Choice{{odd ? 2ull : 1ull, least}, 4096, 0, 1.0f, {0}};
    *found = 1;
    return takes(desc, d, out->algo[0]) ? OK : REFUSED;
}

#ifndef STANDIN_WITHOUT_CHECK
EXPORT unsigned cublasLtMatmulAlgoCheck(void *handle, const Desc *desc, const Layout *a, const Layout *b, const Layout *c,
                                        const Layout *d, const uint64_t *algo, Choice *out) {
    if (!is_current(handle))
        return NO_CONTEXT;
    if (!fits(desc, a, b, d) || c != d || algo[0] < 1 || algo[0] > 2)
        return BAD;
    if (!takes(desc, d, algo[0]))
        return REFUSED;
    /* The answer does not repeat the algorithm. */
    *out = Choice{{0}, room_for(desc), 0, 1.0f, {0}};
    return OK;
}
/* Pieces of the sums, and how they are added. */
EXPORT unsigned cublasLtMatmulAlgoConfigGetAttribute(const uint64_t *algo, unsigned key, void *value, size_t bytes,
                                                     size_t *written) {
    if (bytes != 4 || (key != 2 && key != 3))
        return BAD;
    const int answer = key == 2 ? (algo[0] == 2 ? 2 : 1) : (algo[0] == 2 ? 2 : 0);
    memcpy(value, &answer, 4);
    *written = 4;
    return OK;
}
#endif

static float f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float size = exponent == 31  ? (mantissa ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf((float)mantissa, -24)
                                       : ldexpf((float)(mantissa | 1024), exponent - 25);
    return bits & 0x8000 ? -size : size;
}
static uint16_t to_f16(float value) {
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, 2);
    return bits;
}
static float bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return value != value ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float f8(uint8_t bits, int mantissa, int bias) {
    const int size = bits & 127, low = size & ((1 << mantissa) - 1), exponent = size >> mantissa;
    const int most = mantissa == 3 ? 127 : 124;
    const float value = size > most || (size == 127 && mantissa == 3) ? NAN
                        : size == most                               ? INFINITY
                        : exponent == 0                              ? ldexpf((float)low, 1 - bias - mantissa)
                                        : ldexpf((float)(low | 1 << mantissa), exponent - bias - mantissa);
    return bits & 128 ? -value : value;
}

static double read(unsigned type, const char *base, int64_t at) {
    switch (type) {
    case 0:
        return ((const float *)base)[at];
    case 1:
        return ((const double *)base)[at];
    case 2:
        return f16(((const uint16_t *)base)[at]);
    case 14:
        return bf16(((const uint16_t *)base)[at]);
    case 28:
        return f8(((const uint8_t *)base)[at], 3, 7);
    case 29:
        return f8(((const uint8_t *)base)[at], 2, 15);
    case 3:
        return ((const int8_t *)base)[at];
    default:
        return ((const int32_t *)base)[at];
    }
}
static void write(unsigned type, char *base, int64_t at, double value) {
    switch (type) {
    case 0:
        ((float *)base)[at] = (float)value;
        break;
    case 1:
        ((double *)base)[at] = value;
        break;
    case 2:
        ((uint16_t *)base)[at] = to_f16((float)value);
        break;
    case 14:
        ((uint16_t *)base)[at] = to_bf16((float)value);
        break;
    default:
        ((int32_t *)base)[at] = (int32_t)(int64_t)value;
    }
}

struct Call {
    Desc desc;
    Layout a, b, d;
    const char *from[2];
    char *to;
    uint64_t algo;
};

/* Products wait while this is set. */
static std::atomic<bool> held;
EXPORT void standin_lt_hold(int hold) { held = hold != 0; }

static void run(void *data) {
    while (held)
        std::this_thread::yield();
    Call *call = (Call *)data;
    const Desc &desc = call->desc;
    const Layout &a = call->a, &b = call->b, &d = call->d;
    const int64_t inner = (int64_t)(desc.turn[0] ? a.rows : a.columns);
    for (int p = 0; p < d.count; p++)
        for (int64_t j = 0; j < (int64_t)d.columns; j++)
            for (int64_t i = 0; i < (int64_t)d.rows; i++) {
                /* Algorithm 1 rounds its one sum at the end, algorithm 2 keeps two in the type of the scale. */
                const bool narrow = call->algo == 2 && desc.scale == 0;
                const int64_t half = call->algo == 2 ? inner / 2 : inner;
                double sums[2] = {0, 0};
                for (int64_t l = 0; l < inner; l++) {
                    const int64_t x = desc.turn[0] ? l + i * a.ld : i + l * a.ld;
                    const int64_t y = desc.turn[1] ? j + l * b.ld : l + j * b.ld;
                    double &sum = sums[l >= half];
                    sum += read(a.type, call->from[0], x + p * a.offset) * read(b.type, call->from[1], y + p * b.offset);
                    if (narrow)
                        sum = (float)sum;
                }
                /* Algorithm 2 adds a bias to the first of its pieces. */
                const double bias = desc.epilogue == EPILOGUE_BIAS ? read(d.type, (const char *)desc.bias, i) : 0;
                const double first = call->algo == 2 ? sums[0] + bias : sums[0] + sums[1];
                const double second = call->algo == 2 ? sums[1] : bias;
                const double sum = (desc.scale == 0 ? (float)first : first) + second;
                write(d.type, call->to, i + j * d.ld + p * d.offset, sum);
            }
}

static void drop(void *data) { delete (Call *)data; }

/* Products that this thread has queued, those with a bias, those in TF32, and those that were refused for their bias. */
static thread_local int counts[4];
EXPORT int standin_lt_count(int what) { return counts[what]; }

EXPORT unsigned cublasLtMatmul(void *handle, const Desc *desc, const void *one, const void *a, const Layout *la, const void *b,
                               const Layout *lb, const void *zero, const void *c, const Layout *lc, void *d,
                               const Layout *ld, const uint64_t *algo, void *workspace, size_t bytes, void *stream) {
    if (!is_current(handle))
        return NO_CONTEXT;
    const bool wide = desc->scale == 1, bias = desc->epilogue == EPILOGUE_BIAS;
    const double alpha = wide ? *(const double *)one : desc->scale == 10 ? *(const int *)one : *(const float *)one;
    const double beta = wide ? *(const double *)zero : *(const float *)zero;
    if (alpha != 1 || beta != 0 || c != d || lc != ld || !fits(desc, la, lb, ld) || algo[0] < 1 || algo[0] > 2)
        return BAD;
    if (!takes(desc, ld, algo[0]) || ((uint64_t)a | (uint64_t)b | (uint64_t)d) % algo[1])
        return BAD;
    if ((la->type >= 28 || lb->type >= 28) && !takes_f8(desc, la, lb, ld, algo[1]))
        return BAD;
    if (bytes < room_for(desc) || bytes > (bias ? 8192 : 4096) || (uint64_t)workspace % 256)
        return BAD;
    if (!standin_memory((uint64_t)workspace, bytes) || !standin_memory((uint64_t)d, 1))
        return BAD;
    if (bias && (desc->bias % 16 || !standin_memory(desc->bias, ld->rows * (wide ? 8 : 4))))
        return BAD;
    if (bias && refusing == 2) {
        counts[3]++;
        standin_spoil(stream);
        return REFUSED;
    }
    counts[0]++;
    counts[1] += bias;
    counts[2] += desc->compute == 77;
    return standin_push(stream, run, new Call{*desc, *la, *lb, *ld, {(const char *)a, (const char *)b}, (char *)d, algo[0]},
                        drop);
}
