/* gather */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[14]; } tl_words;
TL_KERNEL void tl_gather_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const i32 * TL_RESTRICT b1, TL_GLOBAL u16 * TL_RESTRICT b2, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx e1 = (idx)words.at[4];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[5]);
    const idx s0_0 = (idx)words.at[6];
    const idx gs0 = (idx)words.at[7];
    const u64 ge0 = (u64)words.at[8];
    TL_GLOBAL const i32 *const p1 = (TL_GLOBAL const i32 *)((TL_GLOBAL const char *)b1 + words.at[9]);
    const idx s1_0 = (idx)words.at[10];
    TL_GLOBAL u16 *const p2 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b2 + words.at[11]);
    const idx s2_0 = (idx)words.at[12];
    const u64 c0 = (u64)words.at[13];
    const f32 n3 = tl_f32_of_bf16((u16)c0);
    const idx begin = (idx)TL_GROUP * length;
    const idx end = total - begin < length ? total : begin + length;
    for (idx i = begin; i < end;) {
        const idx q = i / e1;
        const idx first = i - q * e1;
        const idx left = end - i;
        const idx stop = left < e1 - first ? first + left : e1;
        idx rest = q;
        const idx d0 = rest;
        const idx u0 = d0 * s0_0;
        const idx u1 = d0 * s1_0;
        const idx u2 = d0 * s2_0;
        const idx row = i - first;
        TL_PARALLEL
        for (idx j = first; j < stop; ++j) {
            const i32 n0 = p1[u1 + j];
            const i64 n1 = (i64)n0;
            const bool g2 = n1 >= 0 && (u64)n1 < ge0;
            const f32 n2 = g2 ? tl_f32_of_bf16(p0[u0 + j + (idx)n1 * gs0]) : 0.0f;
            const f32 n4 = tl_to_bf16((n2 * n3));
            p2[u2 + j] = tl_bf16_of_f32(n4);
        }
        i += stop - first;
    }
}
