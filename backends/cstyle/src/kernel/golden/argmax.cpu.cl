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
    const idx strips = (rows + 79) / 80;
    const idx units = strips;
    const idx groups = (idx)TL_GROUPS;
    const idx run = (units + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = units - from < run ? units : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx line = unit / strips;
        const idx r0 = (unit - line * strips) * 80;
        const i32 count = (i32)(rows - r0 < 80 ? rows - r0 : 80);
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        const idx begin = 0;
        const idx end = total;
        i32 a1[2560];
        for (i32 v = 0; v < 2560; ++v) a1[v] = (i32)0x80000000ul;
        i64 j1[2560];
        for (i32 v = 0; v < 2560; ++v) j1[v] = -1;
        {
            for (idx q = 0; q < end / e1; ++q) {
                idx rest = q;
                const idx d0 = rest;
                const idx u0 = q0 + d0 * s0_0;
                const idx row = q * e1;
                const idx stop = e1;
                idx j = 0;
                for (; j + 32 <= stop; j += 32) {
                    for (i32 lane = 0; lane < 32; ++lane) {
                        const idx k = j + lane;
                        TL_PARALLEL
                        for (i32 v = 0; v < count; ++v) {
                            const i32 n0 = p0[u0 + k * s0_1 + v];
                            TL_NEXT(tl_more, a1[lane * 80 + v], j1[lane * 80 + v], n0, row + k)
                        }
                    }
                }
                for (; j < stop; ++j) {
                    TL_PARALLEL
                    for (i32 v = 0; v < count; ++v) {
                        const i32 n0 = p0[u0 + j * s0_1 + v];
                        TL_NEXT(tl_more, a1[v], j1[v], n0, row + j)
                    }
                }
            }
        }
        for (i32 v = 0; v < 1280; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 1280], j1[v + 1280])
        }
        for (i32 v = 0; v < 640; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 640], j1[v + 640])
        }
        for (i32 v = 0; v < 320; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 320], j1[v + 320])
        }
        for (i32 v = 0; v < 160; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 160], j1[v + 160])
        }
        for (i32 v = 0; v < 80; ++v) {
            TL_MERGE(tl_more, a1[v], j1[v], a1[v + 80], j1[v + 80])
        }
        TL_PARALLEL
        for (i32 v = 0; v < count; ++v) {
            const i64 n1 = j1[v];
            p1[q1 + v] = n1;
        }
    }
}
