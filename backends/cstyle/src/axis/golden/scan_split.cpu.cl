/* scan */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[13]; } tl_words;
TL_KERNEL void tl_scan_0(TL_GLOBAL const u16 * b0, TL_GLOBAL f32 * b1, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx along = (idx)words.at[4];
    const idx o1 = (idx)words.at[5];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[6]);
    const idx t0_0 = (idx)words.at[7];
    const idx t0_1 = (idx)words.at[8];
    const idx s0_0 = (idx)words.at[9];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[10]);
    const idx t1_0 = (idx)words.at[11];
    const idx t1_1 = (idx)words.at[12];
    TL_GLOBAL f32 *const z = (TL_GLOBAL f32 *)scratch;
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows * chunks + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows * chunks - from < run ? rows * chunks : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit / chunks;
        const idx piece = unit - r * chunks;
        const idx begin = piece * length;
        const idx end = total - begin < length ? total : begin + length;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        f32 sum = 0.0f;
        for (idx j = begin; j < end; ++j) {
            const f32 value = tl_f32_of_f16(p0[q0 + j * s0_0]);
            const f32 next = (sum + value);
            sum = next;
        }
        z[unit] = (f32)sum;
    }
}
TL_KERNEL void tl_scan_1(TL_GLOBAL const u16 * b0, TL_GLOBAL f32 * b1, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx along = (idx)words.at[4];
    const idx o1 = (idx)words.at[5];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[6]);
    const idx t0_0 = (idx)words.at[7];
    const idx t0_1 = (idx)words.at[8];
    const idx s0_0 = (idx)words.at[9];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[10]);
    const idx t1_0 = (idx)words.at[11];
    const idx t1_1 = (idx)words.at[12];
    TL_GLOBAL f32 *const z = (TL_GLOBAL f32 *)scratch;
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows * chunks + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows * chunks - from < run ? rows * chunks : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit / chunks;
        const idx piece = unit - r * chunks;
        const idx begin = piece * length;
        const idx end = total - begin < length ? total : begin + length;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        f32 sum = 0.0f;
        for (idx c = 0; c < piece; ++c) sum = (sum + (f32)z[r * chunks + c]);
        for (idx j = begin; j < end; ++j) {
            const f32 value = tl_f32_of_f16(p0[q0 + j * s0_0]);
            const f32 next = (sum + value);
            const f32 result = sum;
            p1[q1 + j * t1_1] = result;
            sum = next;
        }
    }
}
