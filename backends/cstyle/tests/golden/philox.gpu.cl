/* noise */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[6]; } tl_words;
TL_KERNEL void tl_noise_0(TL_GLOBAL u32 * TL_RESTRICT b0, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL u32 *const p0 = (TL_GLOBAL u32 *)((TL_GLOBAL char *)b0 + words.at[4]);
    const u64 c0 = (u64)words.at[5];
    const u64 n0 = (u64)c0;
    const idx item = (idx)TL_GROUP * 256 + TL_ITEM;
    const idx items = (idx)TL_GROUPS * 256;
    const idx packs = (total - 0) / 4;
    for (idx pack = item; pack < packs; pack += items) {
        const idx i = 0 + pack * 4;
        const idx j = i;
        u32 y0[4];
        TL_UNROLL
        for (i32 v = 0; v < 4; ++v) {
            const idx k = j + v;
            const i64 n1 = (i64)(k);
            const u64 n2 = (u64)n1;
            const u32 n3 = tl_philox(n0, n2);
            y0[v] = n3;
        }
        TL_STORE(4, p0 + j, y0);
    }
    for (idx j = 0 + packs * 4 + item; j < total; j += items) {
        const i64 n1 = (i64)(j);
        const u64 n2 = (u64)n1;
        const u32 n3 = tl_philox(n0, n2);
        p0[j] = n3;
    }
}
