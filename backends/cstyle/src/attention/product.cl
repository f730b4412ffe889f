/* Adds the product of `rows` rows of `depth` elements and of `depth` rows of vectors to rows of vectors. */
TL_FN void tl_multiply(const tl_sum *const a, const i32 a_pitch, const tl_vector *const b, const i32 b_pitch,
                       tl_vector *const c, const i32 c_pitch, const i32 rows, const i32 depth, const i32 vectors) {
    for (i32 i = 0; i < rows; i += TL_AT_ONCE) {
        for (i32 v = 0; v < vectors; v += 2) {
            tl_vector s[TL_AT_ONCE], t[TL_AT_ONCE];
            TL_UNROLL
            for (i32 r = 0; r < TL_AT_ONCE; ++r) {
                s[r] = c[(i + r) * c_pitch + v];
                t[r] = c[(i + r) * c_pitch + v + 1];
            }
            for (i32 l = 0; l < depth; ++l) {
                const tl_vector x = b[l * b_pitch + v], y = b[l * b_pitch + v + 1];
                TL_UNROLL
                for (i32 r = 0; r < TL_AT_ONCE; ++r) {
                    const tl_vector own = (tl_vector)(a[(i + r) * a_pitch + l]);
                    s[r] = fma(own, x, s[r]);
                    t[r] = fma(own, y, t[r]);
                }
            }
            TL_UNROLL
            for (i32 r = 0; r < TL_AT_ONCE; ++r) {
                c[(i + r) * c_pitch + v] = s[r];
                c[(i + r) * c_pitch + v + 1] = t[r];
            }
        }
    }
}
