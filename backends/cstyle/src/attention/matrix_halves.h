/* The words of a fragment. */
template <int words> struct tl_parts {
    u32 all[words];
};
template <int words> TL_FN void tl_split(tl_parts<words> &parts, const u32 (&of)[words]) {
    TL_UNROLL
    for (i32 w = 0; w < words; ++w) parts.all[w] = of[w];
}
TL_FN void tl_multiply(f32 (&sum)[4], const tl_parts<4> &a, const tl_parts<2> &b) { tl_mma(sum, a.all, b.all); }

/* Scales sums and adds weighted values. Weights are rounded to halves; the sums of two tiles are the fragment of one. */
TL_FN void tl_weigh(f32 (&sums)[TL_BANDS][TL_COLUMNS / 8][4], const f32 (&weights)[TL_BANDS][TL_KEYS / 8][4],
                    const f32 (&factor)[TL_BANDS][2], const tl_in *const values) {
    TL_UNROLL
    for (i32 b = 0; b < TL_BANDS; ++b) {
        TL_UNROLL
        for (i32 h = 0; h < 2; ++h) {
            TL_UNROLL
            for (i32 c = 0; c < TL_COLUMNS / 8; ++c) {
                sums[b][c][2 * h] *= factor[b][h];
                sums[b][c][2 * h + 1] *= factor[b][h];
            }
        }
    }
    const i32 lane = TL_ITEM % 32;
    const tl_in *const own = values + (lane / 8 % 2 * 8 + lane % 8) * TL_V_PITCH + lane / 16 * 8;
    TL_UNROLL
    for (i32 s = 0; s < TL_KEYS / 16; ++s) {
        tl_parts<4> left[TL_BANDS];
        TL_UNROLL
        for (i32 b = 0; b < TL_BANDS; ++b) {
            TL_UNROLL
            for (i32 w = 0; w < 4; ++w) {
                const f32 (&tile)[4] = weights[b][2 * s + w / 2];
                left[b].all[w] = tl_both(tile[w % 2 * 2], tile[w % 2 * 2 + 1]);
            }
        }
        TL_UNROLL
        for (i32 c = 0; c < TL_COLUMNS / 16; ++c) {
            u32 some[4];
            tl_matrices_turned(some, own + s * 16 * TL_V_PITCH + c * 16);
            const tl_parts<2> low = {some[0], some[1]}, high = {some[2], some[3]};
            TL_UNROLL
            for (i32 b = 0; b < TL_BANDS; ++b) {
                tl_multiply(sums[b][2 * c], left[b], low);
                tl_multiply(sums[b][2 * c + 1], left[b], high);
            }
        }
    }
}
