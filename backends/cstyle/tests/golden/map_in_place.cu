/* add */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[7]; } tl_words;
TL_KERNEL void __launch_bounds__(256) tl_add_0(TL_GLOBAL const f32 * b0, TL_GLOBAL const u16 * b1, TL_GLOBAL f32 * b2, const __grid_constant__ tl_words words) {
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
        u16 x1[4];
        TL_LOAD(4, x1, p1 + j);
        f32 y2[4];
        TL_UNROLL
        for (i32 v = 0; v < 4; ++v) {
            const idx k = j + v;
            const f32 n0 = x0[v];
            const f32 n1 = tl_f32_of_f16(x1[v]);
            const f32 n2 = n1;
            const f32 n3 = (n0 + n2);
            y2[v] = n3;
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
