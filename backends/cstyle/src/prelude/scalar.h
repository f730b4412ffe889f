#define TL_INTEGER(name, type, wide, least)                                                                            \
    TL_FN type tl_neg_##name(type a) { return (type)(0 - (wide)a); }                                                   \
    TL_FN type tl_abs_##name(type a) { return a < 0 ? (type)(0 - (wide)a) : a; }                                       \
    TL_FN type tl_sign_##name(type a) { return (type)((a > 0) - (a < 0)); }                                            \
    TL_FN type tl_add_##name(type a, type b) { return (type)((wide)a + (wide)b); }                                     \
    TL_FN type tl_sub_##name(type a, type b) { return (type)((wide)a - (wide)b); }                                     \
    TL_FN type tl_mul_##name(type a, type b) { return (type)((wide)a * (wide)b); }                                     \
    TL_FN type tl_max_##name(type a, type b) { return a > b ? a : b; }                                                 \
    TL_FN type tl_min_##name(type a, type b) { return a < b ? a : b; }                                                 \
    TL_FN type tl_shl_##name(type a, type b) {                                                                         \
        return (u64)b < 8 * sizeof(type) ? (type)((wide)a << (b & (8 * sizeof(type) - 1))) : (type)0;                  \
    }                                                                                                                  \
    TL_FN type tl_shr_##name(type a, type b) {                                                                         \
        return (u64)b < 8 * sizeof(type) ? (type)(a >> (b & (8 * sizeof(type) - 1))) : (type)(a < 0 ? -1 : 0);         \
    }                                                                                                                  \
    TL_FN type tl_div_##name(type a, type b) {                                                                         \
        const type by = b == 0 || (least != 0 && a == (type)least && b == (type)-1) ? (type)1 : b;                     \
        return b == 0 ? (type)0 : (type)(a / by);                                                                      \
    }                                                                                                                  \
    TL_FN type tl_rem_##name(type a, type b) {                                                                         \
        const type by = b == 0 || (least != 0 && b == (type)-1) ? (type)1 : b;                                         \
        return (type)(a % by);                                                                                         \
    }

TL_INTEGER(i8, i8, u32, -128)
TL_INTEGER(i16, i16, u32, -32768)
TL_INTEGER(i32, i32, u32, (-2147483647 - 1))
TL_INTEGER(i64, i64, u64, (-9223372036854775807L - 1))
TL_INTEGER(u8, u8, u32, 0)
TL_INTEGER(u16, u16, u32, 0)
TL_INTEGER(u32, u32, u32, 0)
TL_INTEGER(u64, u64, u64, 0)

#define tl_max_bool(a, b) ((a) | (b))
#define tl_min_bool(a, b) ((a) & (b))
#define tl_more(a, b) ((a) > (b))
#define tl_less(a, b) ((a) < (b))

#define TL_FLOAT(name, type, bits)                                                                                     \
    TL_FN type tl_sign_##name(type a) { return a > 0 ? (type)1 : a < 0 ? (type)-1 : a; }                               \
    TL_FN type tl_max_##name(type a, type b) {                                                                         \
        const type same = tl_##name##_of_bits(tl_bits_of_##name(a) & tl_bits_of_##name(b));                            \
        return a > b || a != a ? a : b > a || b != b ? b : same;                                                       \
    }                                                                                                                  \
    TL_FN type tl_min_##name(type a, type b) {                                                                         \
        const type same = tl_##name##_of_bits(tl_bits_of_##name(a) | tl_bits_of_##name(b));                            \
        return a < b || a != a ? a : b < a || b != b ? b : same;                                                       \
    }                                                                                                                  \
    TL_FN bool tl_more_##name(type a, type b) {                                                                        \
        const bool zeros = a == b && tl_bits_of_##name(a) < tl_bits_of_##name(b);                                      \
        return b == b && (a != a || a > b || zeros);                                                                   \
    }                                                                                                                  \
    TL_FN bool tl_less_##name(type a, type b) {                                                                        \
        const bool zeros = a == b && tl_bits_of_##name(a) > tl_bits_of_##name(b);                                      \
        return b == b && (a != a || a < b || zeros);                                                                   \
    }

#define TL_INTEGER_OF(name, type, from, least, limit, most)                                                            \
    TL_FN type tl_##name##_of_##from(from a) {                                                                         \
        const type inside = (type)(a > (from)least && a < (from)limit ? a : (from)0);                                  \
        return a >= (from)limit ? (type)most : a <= (from)least ? (type)least : inside;                                \
    }

#define TL_INTEGERS_OF(from)                                                                                           \
    TL_INTEGER_OF(i8, i8, from, -128, 128, 127)                                                                        \
    TL_INTEGER_OF(i16, i16, from, -32768, 32768, 32767)                                                                \
    TL_INTEGER_OF(i32, i32, from, (-2147483647 - 1), 2147483648.0f, 2147483647)                                        \
    TL_INTEGER_OF(i64, i64, from, (-9223372036854775807L - 1), 9223372036854775808.0f, 9223372036854775807L)           \
    TL_INTEGER_OF(u8, u8, from, 0, 256, 255)                                                                           \
    TL_INTEGER_OF(u16, u16, from, 0, 65536, 65535)                                                                     \
    TL_INTEGER_OF(u32, u32, from, 0, 4294967296.0f, 4294967295u)                                                       \
    TL_INTEGER_OF(u64, u64, from, 0, 18446744073709551616.0f, 18446744073709551615UL)

TL_FLOAT(f32, f32, u32)
TL_INTEGERS_OF(f32)

#define tl_f32_of_bf16(x) tl_f32_of_bits((u32)(x) << 16)
#define tl_to_f16(x) tl_f32_of_f16(tl_f16_of_f32(x))
#ifndef tl_to_bf16
#define tl_to_bf16(x) tl_f32_of_bf16(tl_bf16_of_f32(x))
#endif

/* Floats of 8 bits. Below the least normal one the last bit is worth what it is of the f32 from 2^(24 - bias - mantissa) on. */
#define TL_FLOAT8(name, mantissa, bias, past, nan)                                                                     \
    TL_FN u8 tl_##name##_of_f32(f32 value) {                                                                           \
        const u32 bits = tl_bits_of_f32(value), size = bits & 0x7fffffffu, start = (151u - bias - mantissa) << 23;     \
        const u32 low = tl_bits_of_f32(tl_f32_of_bits(size) + tl_f32_of_bits(start)) - start;                          \
        const u32 tie = (1u << (22 - mantissa)) - 1 + ((size >> (23 - mantissa)) & 1);                                 \
        const u32 high = (size + tie - ((127u - bias) << 23)) >> (23 - mantissa);                                      \
        const u32 near = size < ((128u - bias) << 23) ? low : high;                                                    \
        return (u8)(((bits >> 24) & 0x80) | (size > 0x7f800000u ? nan : near > past ? past : near));                   \
    }                                                                                                                  \
    TL_FN f32 tl_f32_of_##name(u8 bits) {                                                                              \
        const u32 size = (u32)bits & 0x7f, start = (151u - bias - mantissa) << 23;                                     \
        const u32 low = tl_bits_of_f32(tl_f32_of_bits(start | size) - tl_f32_of_bits(start));                          \
        const u32 high = (size << (23 - mantissa)) + ((127u - bias) << 23);                                            \
        const u32 wide = size >> mantissa ? high : low;                                                                \
        const u32 none = size == past && past != nan ? 0x7f800000u : 0x7fc00000u;                                      \
        return tl_f32_of_bits((((u32)bits & 0x80) << 24) | (size >= past ? none : wide));                              \
    }
TL_FLOAT8(f8e4m3, 3, 7, 0x7fu, 0x7fu)
TL_FLOAT8(f8e5m2, 2, 15, 0x7cu, 0x7eu)

/* The last of 24 bits keeps whether anything was cut off, so that the next rounding is the only one. */
TL_FN f32 tl_odd_of_u64(u64 a) {
    const i32 cut = 40 - (i32)tl_leading_zeros(a | 1);
    const u64 kept = cut > 0 ? (a >> cut) | (u64)((a & (((u64)1 << cut) - 1)) != 0) : a;
    return (f32)kept * (cut > 0 ? tl_f32_of_bits((u32)(127 + cut) << 23) : 1.0f);
}
TL_FN f32 tl_bf16_of_u64(u64 a) { return tl_to_bf16(tl_odd_of_u64(a)); }
TL_FN f32 tl_bf16_of_i64(i64 a) {
    const f32 size = tl_odd_of_u64(a < 0 ? 0 - (u64)a : (u64)a);
    return tl_to_bf16(a < 0 ? -size : size);
}

#define TL_NEXT(beats, best, at, value, index)                                                                         \
    {                                                                                                                  \
        const bool take = at < 0 || beats(value, best);                                                                \
        best = take ? value : best;                                                                                    \
        at = take ? (i64)(index) : at;                                                                                 \
    }
#define TL_MERGE(beats, best, at, value, index)                                                                        \
    {                                                                                                                  \
        const bool first = beats(value, best) || (!beats(best, value) && index < at);                                  \
        const bool take = index >= 0 && (at < 0 || first);                                                             \
        best = take ? value : best;                                                                                    \
        at = take ? index : at;                                                                                        \
    }
