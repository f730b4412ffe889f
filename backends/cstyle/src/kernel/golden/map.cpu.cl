/* add */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[7]; } tl_words;
TL_KERNEL void tl_add_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL f32 * TL_RESTRICT b2, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[5]);
    TL_GLOBAL f32 *const p2 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b2 + words.at[6]);
    const idx begin = (idx)TL_GROUP * length;
    const idx end = total - begin < length ? total : begin + length;
    TL_PARALLEL
    for (idx j = begin; j < end; ++j) {
        const f32 n0 = p0[j];
        const f32 n1 = tl_f32_of_f16(p1[j]);
        const f32 n2 = n1;
        const f32 n3 = (n0 + n2);
        p2[j] = n3;
    }
}
