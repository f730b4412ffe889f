/* swish */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[9]; } tl_words;
TL_KERNEL void tl_swish_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL u16 * TL_RESTRICT b2, TL_GLOBAL u16 * TL_RESTRICT b3, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[5]);
    TL_GLOBAL u16 *const p2 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b2 + words.at[6]);
    TL_GLOBAL u16 *const p3 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b3 + words.at[7]);
    const u64 c0 = (u64)words.at[8];
    const f32 n1 = tl_f32_of_f16((u16)c0);
    const idx begin = (idx)TL_GROUP * length;
    const idx end = total - begin < length ? total : begin + length;
    TL_PARALLEL
    for (idx j = begin; j < end; ++j) {
        const f32 n0 = tl_f32_of_f16(p0[j]);
        const f32 n2 = (-n0);
        const f32 n3 = tl_to_f16(tl_exp_f32(n2));
        const f32 n4 = tl_to_f16((n3 + n1));
        const f32 n5 = tl_to_f16((n0 / n4));
        const f32 n6 = tl_f32_of_bf16(p1[j]);
        const f32 n7 = tl_to_bf16(n5);
        const f32 n8 = tl_max_f32(n6, n7);
        const bool n9 = (n6 < n8);
        const f32 n10 = (n9 ? n6 : n8);
        p2[j] = tl_f16_of_f32(n5);
        p3[j] = tl_bf16_of_f32(n10);
    }
}
