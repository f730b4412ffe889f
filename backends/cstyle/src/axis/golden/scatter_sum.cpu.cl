/* scatter */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[21]; } tl_words;
TL_KERNEL void tl_scatter_0(TL_GLOBAL const f32 * b0, TL_GLOBAL const f32 * b1, TL_GLOBAL const i32 * b2, TL_GLOBAL f32 * b3, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx along = (idx)words.at[4];
    const idx o1 = (idx)words.at[5];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[6]);
    const idx t0_0 = (idx)words.at[7];
    const idx t0_1 = (idx)words.at[8];
    TL_GLOBAL const f32 *const p1 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b1 + words.at[9]);
    const idx t1_0 = (idx)words.at[10];
    const idx t1_1 = (idx)words.at[11];
    const idx gs1 = (idx)words.at[12];
    const u64 ge1 = (u64)words.at[13];
    TL_GLOBAL const i32 *const p2 = (TL_GLOBAL const i32 *)((TL_GLOBAL const char *)b2 + words.at[14]);
    const idx t2_0 = (idx)words.at[15];
    const idx t2_1 = (idx)words.at[16];
    const idx s2_0 = (idx)words.at[17];
    TL_GLOBAL f32 *const p3 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b3 + words.at[18]);
    const idx t3_0 = (idx)words.at[19];
    const idx t3_1 = (idx)words.at[20];
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows * along + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows * along - from < run ? rows * along : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit / along;
        const idx at = unit - r * along;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q3 = r0 * t3_0;
        p3[q3 + at * t3_1] = p0[q0 + at * t0_1];
    }
}
TL_KERNEL void tl_scatter_1(TL_GLOBAL const f32 * b0, TL_GLOBAL const f32 * b1, TL_GLOBAL const i32 * b2, TL_GLOBAL f32 * b3, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx along = (idx)words.at[4];
    const idx o1 = (idx)words.at[5];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[6]);
    const idx t0_0 = (idx)words.at[7];
    const idx t0_1 = (idx)words.at[8];
    TL_GLOBAL const f32 *const p1 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b1 + words.at[9]);
    const idx t1_0 = (idx)words.at[10];
    const idx t1_1 = (idx)words.at[11];
    const idx gs1 = (idx)words.at[12];
    const u64 ge1 = (u64)words.at[13];
    TL_GLOBAL const i32 *const p2 = (TL_GLOBAL const i32 *)((TL_GLOBAL const char *)b2 + words.at[14]);
    const idx t2_0 = (idx)words.at[15];
    const idx t2_1 = (idx)words.at[16];
    const idx s2_0 = (idx)words.at[17];
    TL_GLOBAL f32 *const p3 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b3 + words.at[18]);
    const idx t3_0 = (idx)words.at[19];
    const idx t3_1 = (idx)words.at[20];
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows - from < run ? rows : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q1 = r0 * t1_0;
        const idx q2 = r0 * t2_0;
        const idx q3 = r0 * t3_0;
        for (idx m = 0; m < total; ++m) {
            const i64 at = (i64)p2[q2 + m * s2_0];
            if (at < 0 || at >= (i64)along) continue;
            const bool inside = (u64)m < ge1;
            const f32 update = inside ? p1[q1 + m * gs1] : 0.0f;
            const idx place = q3 + (idx)at * t3_1;
            const f32 old = p3[place];
            const f32 result = (old + update);
            p3[place] = result;
        }
    }
}
