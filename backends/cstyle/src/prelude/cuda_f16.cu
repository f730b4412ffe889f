TL_FN f32 tl_f32_of_f16(u16 bits) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
TL_FN u16 tl_f16_of_f32(f32 value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

/* Two values in a word. An op rounds once, which gives the bits of the op on f32 rounded to the half: f32 has more than twice as
 * many digits and two. */
TL_FN u32 tl_pair_f16(f32 low, f32 high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
TL_FN u32 tl_pair_bf16(f32 low, f32 high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
TL_FN u16 tl_bf16_of_f32(f32 value) { return (u16)tl_pair_bf16(value, 0.0f); }
/* One instruction: the upper half of the word is the value. */
#define tl_to_bf16(x) tl_f32_of_bits(tl_pair_bf16(0.0f, x))
#define tl_low_f16(pair) tl_f32_of_f16((u16)(pair))
#define tl_high_f16(pair) tl_f32_of_f16((u16)((pair) >> 16))
#define tl_low_bf16(pair) tl_f32_of_bits((pair) << 16)
#define tl_high_bf16(pair) tl_f32_of_bits((pair) & 0xffff0000u)

TL_FN u32 tl_add_f16x2(u32 a, u32 b) {
    u32 c;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
TL_FN u32 tl_sub_f16x2(u32 a, u32 b) {
    u32 c;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
TL_FN u32 tl_mul_f16x2(u32 a, u32 b) {
    u32 c;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
TL_FN u32 tl_max_f16x2(u32 a, u32 b) {
    u32 c;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
TL_FN u32 tl_min_f16x2(u32 a, u32 b) {
    u32 c;
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}

TL_FN u32 tl_fma_bf16x2(u32 a, u32 b, u32 c) {
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/* Before compute capability 9.0 bf16 has no other sum or product. 1, -1 and -0 keep the signs of zeros too. */
#define tl_add_bf16x2(a, b) tl_fma_bf16x2(a, 0x3f803f80u, b)
#define tl_sub_bf16x2(a, b) tl_fma_bf16x2(b, 0xbf80bf80u, a)
#define tl_mul_bf16x2(a, b) tl_fma_bf16x2(a, b, 0x80008000u)
TL_FN u32 tl_max_bf16x2(u32 a, u32 b) {
    u32 c;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}
TL_FN u32 tl_min_bf16x2(u32 a, u32 b) {
    u32 c;
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}

#define tl_neg_x2(a) ((a) ^ 0x80008000u)
#define tl_abs_x2(a) ((a) & 0x7fff7fffu)
#define tl_select_x2(low, high, a, b) ((((low) ? (a) : (b)) & 0xffffu) | (((high) ? (a) : (b)) & 0xffff0000u))
