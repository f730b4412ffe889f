/* add */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[7]; } tl_words;
TL_KERNEL void __launch_bounds__(256) tl_add_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL f32 * TL_RESTRICT b2, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[5]);
    TL_GLOBAL f32 *const p2 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b2 + words.at[6]);
    const idx item = (idx)TL_GROUP * 256 + TL_ITEM;
    const idx items = (idx)TL_GROUPS * 256;
    const idx packs = (total - 0) / 4;
    for (idx pack = item; pack < packs; pack += items) {
        const idx i = 0 + pack * 4;
        const idx j = i;
        f32 x0[4];
        TL_LOAD(4, x0, p0 + j);
        u32 x1[2];
        TL_LOAD(2, x1, (const u32 *)(p1 + j));
        f32 y2[4];
        TL_UNROLL
        for (i32 v = 0; v < 4; v += 2) {
            const idx k0 = j + v, k1 = k0 + 1;
            const f32 n0_0 = x0[v];
            const f32 n0_1 = x0[v + 1];
            const u32 h1 = x1[v / 2];
            const f32 n1_0 = tl_low_f16(h1);
            const f32 n1_1 = tl_high_f16(h1);
            const f32 n2_0 = n1_0;
            const f32 n2_1 = n1_1;
            const f32 n3_0 = (n0_0 + n2_0);
            const f32 n3_1 = (n0_1 + n2_1);
            y2[v] = n3_0;
            y2[v + 1] = n3_1;
        }
        TL_STORE(4, p2 + j, y2);
    }
    for (idx j = 0 + packs * 4 + item; j < total; j += items) {
        const f32 n0 = p0[j];
        const f32 n1 = tl_f32_of_f16(p1[j]);
        const f32 n2 = n1;
        const f32 n3 = (n0 + n2);
        p2[j] = n3;
    }
}
