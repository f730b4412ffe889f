TL_FLOAT(f64, f64, u64)
TL_INTEGERS_OF(f64)

/* Rounded to odd, so that the next rounding is the only one. */
TL_FN f32 tl_odd_of_f64(f64 a) {
    const f32 near = (f32)a;
    const f64 back = (f64)near;
    const u32 bits = tl_bits_of_f32(near);
    const bool keep = back == a || a != a || (bits & 1) != 0;
    return keep ? near : tl_f32_of_bits(tl_abs_f64(back) > tl_abs_f64(a) ? bits - 1 : bits + 1);
}
