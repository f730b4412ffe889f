/* sum_down */
typedef i32 idx;
enum { TL_ITEMS = 128 };
typedef struct { i64 at[9]; } tl_words;
TL_KERNEL void __launch_bounds__(128) tl_sum_down_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, TL_GLOBAL char *scratch, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    const idx s0_0 = (idx)words.at[6];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[7]);
    const idx t1_0 = (idx)words.at[8];
    const i64 slot = (i64)rows * chunks * 8;
    TL_GLOBAL f32 *const z1 = (TL_GLOBAL f32 *)(scratch + 0 * slot);
    const idx items = (idx)TL_GROUPS * 128;
    for (idx unit = (idx)TL_GROUP * 128 + TL_ITEM; unit < rows * chunks; unit += items) {
        const idx r = unit / chunks;
        const idx piece = unit - r * chunks;
        const idx begin = piece * length;
        const idx end = total - begin < length ? total : begin + length;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        f32 a1 = 0.0f;
        {
            for (idx j = begin; j < end; ++j) {
                const f32 n0 = p0[q0 + j * s0_0];
                a1 = (a1 + n0);
            }
        }
        const f32 n1 = a1;
        z1[unit] = (f32)n1;
    }
}
TL_KERNEL void __launch_bounds__(128) tl_sum_down_1(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, TL_GLOBAL char *scratch, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    const idx s0_0 = (idx)words.at[6];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[7]);
    const idx t1_0 = (idx)words.at[8];
    const i64 slot = (i64)rows * chunks * 8;
    TL_GLOBAL f32 *const z1 = (TL_GLOBAL f32 *)(scratch + 0 * slot);
    const idx items = (idx)TL_GROUPS * 128;
    for (idx unit = (idx)TL_GROUP * 128 + TL_ITEM; unit < rows; unit += items) {
        const idx r = unit;
        const idx begin = 0;
        const idx end = total;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        f32 a1_all = 0.0f;
        for (idx c = 0; c < chunks; c += 1) {
            const idx at = r * chunks + c;
            const f32 value1 = (f32)z1[at];
            a1_all = (a1_all + value1);
        }
        const f32 n1 = a1_all;
        if (true) {
            p1[q1] = n1;
        }
    }
}
