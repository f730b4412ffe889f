TL_FN f32 tl_f32_of_f16(u16 bits) { return vload_half(0, (const half *)&bits); }
TL_FN u16 tl_f16_of_f32(f32 value) {
    u16 bits;
    vstore_half_rte(value, 0, (half *)&bits);
    return bits;
}
