/* transpose */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[10]; } tl_words;
TL_KERNEL void tl_transpose_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx e1 = (idx)words.at[4];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[5]);
    const idx s0_0 = (idx)words.at[6];
    const idx s0_1 = (idx)words.at[7];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[8]);
    const idx s1_0 = (idx)words.at[9];
    const idx lines = total / e1;
    const idx begin = (idx)TL_GROUP * length;
    const idx end = lines - begin < length ? lines : begin + length;
    for (idx first = 0; first < e1; first += 32) {
        const idx stop = e1 - first < 32 ? e1 : first + 32;
        for (idx q = begin; q < end; ++q) {
            idx rest = q;
            const idx d0 = rest;
            const idx u0 = d0 * s0_0;
            const idx u1 = d0 * s1_0;
            TL_PARALLEL
            for (idx j = first; j < stop; ++j) {
                const f32 n0 = p0[u0 + j * s0_1];
                p1[u1 + j] = n0;
            }
        }
    }
}
