/* argmax */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[11]; } tl_words;
TL_KERNEL void tl_argmax_0(TL_GLOBAL const i32 * TL_RESTRICT b0, TL_GLOBAL i64 * TL_RESTRICT b1, const tl_words words) {
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
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows - from < run ? rows : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit;
        const idx begin = 0;
        const idx end = total;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        i32 a1[32];
        for (i32 v = 0; v < 32; ++v) a1[v] = (i32)0x80000000ul;
        i64 j1[32];
        for (i32 v = 0; v < 32; ++v) j1[v] = -1;
        {
            for (idx i = begin; i < end;) {
                const idx q = i / e1;
                const idx first = i - q * e1;
                const idx left = end - i;
                const idx stop = left < e1 - first ? first + left : e1;
                idx rest = q;
                const idx d0 = rest;
                const idx u0 = q0 + d0 * s0_0;
                const idx row = i - first;
                idx j = first;
                for (; j + 32 <= stop; j += 32) {
                    TL_PARALLEL
                    for (i32 v = 0; v < 32; ++v) {
                        const idx k = j + v;
                        const i32 n0 = p0[u0 + k * s0_1];
                        TL_NEXT(tl_more, a1[v], j1[v], n0, row + k)
                    }
                }
                for (; j < stop; ++j) {
                    const i32 n0 = p0[u0 + j * s0_1];
                    TL_NEXT(tl_more, a1[0], j1[0], n0, row + j)
                }
                i += stop - first;
            }
        }
        for (i32 v = 0; v < 16; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 16], j1[v + 16])
        }
        for (i32 v = 0; v < 8; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 8], j1[v + 8])
        }
        for (i32 v = 0; v < 4; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 4], j1[v + 4])
        }
        for (i32 v = 0; v < 2; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 2], j1[v + 2])
        }
        for (i32 v = 0; v < 1; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 1], j1[v + 1])
        }
        const i32 b1_best = a1[0];
        const i64 n1 = j1[0];
        if (true) {
            p1[q1] = n1;
        }
    }
}
