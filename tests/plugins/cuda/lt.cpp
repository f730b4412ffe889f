/* Stand-in for cuBLASLt: products by plain loops, in the order of a stream of the stand-in for libcuda. */

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Of the stand-in for libcuda. */
extern "C" unsigned standin_push(void *stream, void (*run)(void *), void *data,
                                 void (*drop)(void *));
extern "C" int standin_memory(uint64_t address, size_t bytes);

enum { OK = 0, BAD = 7, REFUSED = 15 };

struct Desc {
    unsigned compute, scale;
    unsigned turn[2] = {0, 0};
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
    *out = new int(1);
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
EXPORT unsigned cublasLtMatmulDescSetAttribute(Desc *desc, unsigned key, const void *value, size_t bytes) {
    if ((key != 3 && key != 4) || bytes != 4)
        return BAD;
    memcpy(&desc->turn[key - 3], value, bytes);
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
EXPORT unsigned cublasLtMatmulPreferenceCreate(void **out) {
    *out = new int(1);
    return OK;
}
EXPORT unsigned cublasLtMatmulPreferenceDestroy(void *preference) {
    delete (int *)preference;
    return OK;
}
EXPORT unsigned cublasLtMatmulPreferenceSetAttribute(void *, unsigned key, const void *, size_t bytes) {
    return (key == 1 && bytes == 8) || (key >= 5 && key <= 8 && bytes == 4) ? OK : BAD;
}

static bool fits(const Desc *desc, const Layout *a, const Layout *b, const Layout *d) {
    uint64_t m = desc->turn[0] ? a->columns : a->rows, k = desc->turn[0] ? a->rows : a->columns;
    uint64_t inner = desc->turn[1] ? b->columns : b->rows, n = desc->turn[1] ? b->rows : b->columns;
    return k == inner && m == d->rows && n == d->columns && a->count == d->count && b->count == d->count;
}

EXPORT unsigned cublasLtMatmulAlgoGetHeuristic(void *, const Desc *desc, const Layout *a, const Layout *b, const Layout *c,
                                               const Layout *d, void *, int room, Choice *out, int *found) {
    if (!fits(desc, a, b, d) || c != d || room < 1)
        return BAD;
    *found = 0;
    /* As the library's: products of 8-bit integers take the first operand transposed, columns of whole words. */
    if (desc->compute == 72 && (!desc->turn[0] || desc->turn[1] || a->ld % 4 || b->ld % 4))
        return REFUSED;
    *out = Choice{{1}, 4096, 0, 1.0f, {0}};
    *found = 1;
    return OK;
}

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
};

static void run(void *data) {
    Call *call = (Call *)data;
    const Desc &desc = call->desc;
    const Layout &a = call->a, &b = call->b, &d = call->d;
    const int64_t inner = (int64_t)(desc.turn[0] ? a.rows : a.columns);
    for (int p = 0; p < d.count; p++)
        for (int64_t j = 0; j < (int64_t)d.columns; j++)
            for (int64_t i = 0; i < (int64_t)d.rows; i++) {
                double sum = 0;
                for (int64_t l = 0; l < inner; l++) {
                    const int64_t x = desc.turn[0] ? l + i * a.ld : i + l * a.ld;
                    const int64_t y = desc.turn[1] ? j + l * b.ld : l + j * b.ld;
                    sum += read(a.type, call->from[0], x + p * a.offset) * read(b.type, call->from[1], y + p * b.offset);
                }
                write(d.type, call->to, i + j * d.ld + p * d.offset, sum);
            }
}

static void drop(void *data) { delete (Call *)data; }

EXPORT unsigned cublasLtMatmul(void *, const Desc *desc, const void *one, const void *a, const Layout *la, const void *b,
                               const Layout *lb, const void *zero, const void *c, const Layout *lc, void *d,
                               const Layout *ld, const uint64_t *algo, void *workspace, size_t bytes, void *stream) {
    const bool wide = desc->scale == 1;
    const double alpha = wide ? *(const double *)one : desc->scale == 10 ? *(const int *)one : *(const float *)one;
    const double beta = wide ? *(const double *)zero : *(const float *)zero;
    if (alpha != 1 || beta != 0 || c != d || lc != ld || !fits(desc, la, lb, ld) || algo[0] != 1)
        return BAD;
    if (bytes != 4096 || !standin_memory((uint64_t)workspace, bytes) || !standin_memory((uint64_t)d, 1))
        return BAD;
    return standin_push(stream, run, new Call{*desc, *la, *lb, *ld, {(const char *)a, (const char *)b}, (char *)d}, drop);
}
