/* softmax */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[8]; } tl_words;
TL_KERNEL void tl_softmax_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[6]);
    const idx t1_0 = (idx)words.at[7];
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
        f32 a1 = tl_f32_of_bits(0xff800000u);
        {
            for (idx j = begin; j < end; ++j) {
                const f32 n0 = p0[q0 + j];
                a1 = tl_max_f32(a1, n0);
            }
        }
        const f32 n1 = a1;
        f32 a4 = 0.0f;
        {
            for (idx j = begin; j < end; ++j) {
                const f32 n0 = p0[q0 + j];
                const f32 n2 = (n0 - n1);
                const f32 n3 = tl_exp_f32(n2);
                a4 = (a4 + n3);
            }
        }
        const f32 n4 = a4;
        {
            TL_PARALLEL
            for (idx j = begin; j < end; ++j) {
                const f32 n0 = p0[q0 + j];
                const f32 n2 = (n0 - n1);
                const f32 n3 = tl_exp_f32(n2);
                const f32 n5 = (n3 / n4);
                p1[q1 + j] = n5;
            }
        }
    }
}
