/* gather */
typedef i64 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[13]; } tl_words;
TL_KERNEL void tl_gather_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const i32 * TL_RESTRICT b1, TL_GLOBAL u16 * TL_RESTRICT b2, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx s0_0 = (idx)words.at[5];
    const idx gs0 = (idx)words.at[6];
    const u64 ge0 = (u64)words.at[7];
    TL_GLOBAL const i32 *const p1 = (TL_GLOBAL const i32 *)((TL_GLOBAL const char *)b1 + words.at[8]);
    const idx s1_0 = (idx)words.at[9];
    TL_GLOBAL u16 *const p2 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b2 + words.at[10]);
    const idx s2_0 = (idx)words.at[11];
    const u64 c0 = (u64)words.at[12];
    const f32 n3 = tl_f32_of_bf16((u16)c0);
    const idx begin = (idx)TL_GROUP * length;
    const idx end = total - begin < length ? total : begin + length;
    TL_PARALLEL
    for (idx j = begin; j < end; ++j) {
        const i32 n0 = p1[j * s1_0];
        const i64 n1 = (i64)n0;
        const bool g2 = n1 >= 0 && (u64)n1 < ge0;
        const f32 n2 = g2 ? tl_f32_of_bf16(p0[j * s0_0 + (idx)n1 * gs0]) : 0.0f;
        const f32 n4 = tl_to_bf16((n2 * n3));
        p2[j * s2_0] = tl_bf16_of_f32(n4);
    }
}
