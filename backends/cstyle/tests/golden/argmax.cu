/* argmax */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[11]; } tl_words;
TL_KERNEL void __launch_bounds__(256) tl_argmax_0(TL_GLOBAL const i32 * TL_RESTRICT b0, TL_GLOBAL i64 * TL_RESTRICT b1, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx e1 = (idx)words.at[4];
    TL_GLOBAL const i32 *const p0 = (TL_GLOBAL const i32 *)((TL_GLOBAL const char *)b0 + words.at[5]);
    const idx t0_0 = (idx)words.at[6];
    const idx s0_0 = (idx)words.at[7];
    const idx s0_1 = (idx)words.at[8];
    TL_GLOBAL i64 *const p1 = (TL_GLOBAL i64 *)((TL_GLOBAL char *)b1 + words.at[9]);
    const idx t1_0 = (idx)words.at[10];
    TL_LOCAL i32 l1[8];
    TL_LOCAL i64 m1[8];
    for (idx unit = (idx)TL_GROUP; unit < rows; unit += (idx)TL_GROUPS) {
        const idx r = unit;
        const idx begin = 0;
        const idx end = total;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        i32 a1 = (i32)0x80000000ul;
        i64 j1 = -1;
        {
            for (idx i = begin + TL_ITEM; i < end; i += TL_ITEMS) {
                const idx q = i / e1;
                const idx j = i - q * e1;
                idx rest = q;
                const idx d0 = rest;
                const idx u0 = q0 + d0 * s0_0;
                const idx row = i - j;
                const i32 n0 = p0[u0 + j * s0_1];
                TL_NEXT(tl_more, a1, j1, n0, row + j)
            }
        }
        TL_UNROLL
        for (i32 reach = 16; reach > 0; reach /= 2) {
            const i32 next1 = TL_SHIFT(i32, a1, reach);
            const i64 index1 = TL_SHIFT(i64, j1, reach);
            TL_MERGE(tl_more, a1, j1, next1, index1)
        }
        if (TL_ITEM % 32 == 0) {
            l1[TL_ITEM / 32] = a1;
            m1[TL_ITEM / 32] = j1;
        }
        TL_BARRIER;
        a1 = l1[0];
        j1 = m1[0];
        for (i32 warp = 1; warp < 8; ++warp) {
            TL_MERGE(tl_more, a1, j1, l1[warp], m1[warp])
        }
        const i32 b1_best = a1;
        const i64 n1 = j1;
        TL_BARRIER;
        if (TL_ITEM == 0) {
            p1[q1] = n1;
        }
    }
}
