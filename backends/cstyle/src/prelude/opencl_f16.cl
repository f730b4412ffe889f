TL_FN f32 tl_f32_of_f16(u16 bits) {
    const u32 sign = (u32)(bits & 0x8000) << 16, size = bits & 0x7fff;
    /* Scaling by 2^112 moves the exponent's bias and makes denormals normal. */
    const f32 finite = tl_f32_of_bits(size << 13) * 0x1p112f;
    return tl_f32_of_bits(sign | (size >= 0x7c00 ? 0x7f800000 | (size << 13) : tl_bits_of_f32(finite)));
}
TL_FN u16 tl_f16_of_f32(f32 value) {
    const u32 bits = tl_bits_of_f32(value), size = bits & 0x7fffffff;
    /* Below 2^-14 the sum with 0.5 rounds at the place of the least denormal. */
    const u32 tiny = tl_bits_of_f32(tl_f32_of_bits(size) + 0.5f) - 0x3f000000;
    const u32 normal = (size + 0xfff + ((size >> 13) & 1) - 0x38000000) >> 13;
    const u32 finite = size < 0x38800000 ? tiny : normal;
    const u32 large = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (u16)(((bits >> 16) & 0x8000) | (size >= 0x477ff000 ? large : finite));
}
