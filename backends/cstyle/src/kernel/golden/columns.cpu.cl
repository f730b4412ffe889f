/* sum_down */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[9]; } tl_words;
TL_KERNEL void tl_sum_down_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    const idx s0_0 = (idx)words.at[6];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[7]);
    const idx t1_0 = (idx)words.at[8];
    const idx strips = (rows + 255) / 256;
    const idx units = strips;
    const idx groups = (idx)TL_GROUPS;
    const idx run = (units + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = units - from < run ? units : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx line = unit / strips;
        const idx r0 = (unit - line * strips) * 256;
        const i32 count = (i32)(rows - r0 < 256 ? rows - r0 : 256);
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        const idx begin = 0;
        const idx end = total;
        f32 a1[8192];
        for (i32 v = 0; v < 8192; ++v) a1[v] = 0.0f;
        {
            idx j = begin;
            for (; j + 32 <= end; j += 32) {
                for (i32 lane = 0; lane < 32; ++lane) {
                    const idx k = j + lane;
                    TL_PARALLEL
                    for (i32 v = 0; v < count; ++v) {
                        const f32 n0 = p0[q0 + k * s0_0 + v];
                        a1[lane * 256 + v] = (a1[lane * 256 + v] + n0);
                    }
                }
            }
            for (; j < end; ++j) {
                TL_PARALLEL
                for (i32 v = 0; v < count; ++v) {
                    const f32 n0 = p0[q0 + j * s0_0 + v];
                    a1[v] = (a1[v] + n0);
                }
            }
        }
        for (i32 v = 0; v < 4096; ++v) {
            a1[v] = (a1[v] + a1[v + 4096]);
        }
        for (i32 v = 0; v < 2048; ++v) {
            a1[v] = (a1[v] + a1[v + 2048]);
        }
        for (i32 v = 0; v < 1024; ++v) {
            a1[v] = (a1[v] + a1[v + 1024]);
        }
        for (i32 v = 0; v < 512; ++v) {
            a1[v] = (a1[v] + a1[v + 512]);
        }
        for (i32 v = 0; v < 256; ++v) {
            a1[v] = (a1[v] + a1[v + 256]);
        }
        TL_PARALLEL
        for (i32 v = 0; v < count; ++v) {
            const f32 n1 = a1[v];
            p1[q1 + v] = n1;
        }
    }
}
