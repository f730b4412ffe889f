/* The words of a fragment as two of TF32 each. What is not finite has a small part that is NaN. */
template <int words> struct tl_parts {
    u32 big[words], small[words];
};
template <int words> TL_FN void tl_split(tl_parts<words> &parts, const u32 (&of)[words]) {
    TL_UNROLL
    for (i32 w = 0; w < words; ++w) {
        parts.big[w] = (of[w] + 0x1000u) & 0xffffe000u;
        parts.small[w] = tl_bits_of_f32(tl_f32_of_bits(of[w]) - tl_f32_of_bits(parts.big[w]));
    }
}
/* Without the product of small parts, which is less than the last place. */
TL_FN void tl_multiply(f32 (&sum)[4], const tl_parts<4> &a, const tl_parts<2> &b) {
    tl_mma_tf32(sum, a.small, b.big);
    tl_mma_tf32(sum, a.big, b.small);
    tl_mma_tf32(sum, a.big, b.big);
}

/* Scales sums and adds weighted values. The instructions cut what they add to a sum off, so a block has a sum of its own. The keys
 * of a step are in the order in which the sums of a tile lie. */
TL_FN void tl_weigh(f32 (&sums)[TL_BANDS][TL_COLUMNS / 8][4], const f32 (&weights)[TL_BANDS][TL_KEYS / 8][4],
                    const f32 (&factor)[TL_BANDS][2], const tl_in *const values) {
    const i32 lane = TL_ITEM % 32;
    const tl_in *const own = values + lane % 4 * 2 * TL_V_PITCH + lane / 4;
    TL_UNROLL
    for (i32 from = 0; from < TL_COLUMNS / 8; from += TL_TOGETHER) {
        f32 parts[TL_BANDS][TL_TOGETHER][4];
        TL_UNROLL
        for (i32 b = 0; b < TL_BANDS; ++b) {
            TL_UNROLL
            for (i32 c = 0; c < TL_TOGETHER; ++c) {
                TL_UNROLL
                for (i32 w = 0; w < 4; ++w) parts[b][c][w] = 0;
            }
        }
        TL_UNROLL
        for (i32 s = 0; s < TL_KEYS / 8; ++s) {
            tl_parts<4> left[TL_BANDS];
            TL_UNROLL
            for (i32 b = 0; b < TL_BANDS; ++b) {
                const f32 (&tile)[4] = weights[b][s];
                const u32 words[4] = {tl_bits_of_f32(tile[0]), tl_bits_of_f32(tile[2]), tl_bits_of_f32(tile[1]), tl_bits_of_f32(tile[3])};
                tl_split(left[b], words);
            }
            TL_UNROLL
            for (i32 c = 0; c < TL_TOGETHER; ++c) {
                const tl_in *const at = own + s * 8 * TL_V_PITCH + (from + c) * 8;
                const u32 words[2] = {tl_bits_of_f32(at[0]), tl_bits_of_f32(at[TL_V_PITCH])};
                tl_parts<2> right;
                tl_split(right, words);
                TL_UNROLL
                for (i32 b = 0; b < TL_BANDS; ++b) tl_multiply(parts[b][c], left[b], right);
            }
        }
        TL_UNROLL
        for (i32 b = 0; b < TL_BANDS; ++b) {
            TL_UNROLL
            for (i32 c = 0; c < TL_TOGETHER; ++c) {
                TL_UNROLL
                for (i32 w = 0; w < 4; ++w) {
                    f32 &sum = sums[b][from + c][w];
                    sum = tl_fma_f32(sum, factor[b][w / 2], parts[b][c][w]);
                }
            }
        }
    }
}
