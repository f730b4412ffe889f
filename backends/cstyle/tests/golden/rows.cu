/* softmax */
typedef i32 idx;
enum { TL_ITEMS = 64 };
typedef struct { i64 at[8]; } tl_words;
TL_KERNEL void __launch_bounds__(64) tl_softmax_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[6]);
    const idx t1_0 = (idx)words.at[7];
    TL_LOCAL f32 l1[2];
    TL_LOCAL f32 l4[2];
    for (idx unit = (idx)TL_GROUP; unit < rows; unit += (idx)TL_GROUPS) {
        const idx r = unit;
        const idx begin = 0;
        const idx end = total;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        f32 a1[4];
        for (i32 v = 0; v < 4; ++v) a1[v] = tl_f32_of_bits(0xff800000u);
        {
            const idx packs = (end - begin) / 4;
            for (idx pack = TL_ITEM; pack < packs; pack += TL_ITEMS) {
                const idx i = begin + pack * 4;
                const idx j = i;
                f32 x0[4];
                TL_LOAD(4, x0, p0 + q0 + j);
                TL_UNROLL
                for (i32 v = 0; v < 4; ++v) {
                    const idx k = j + v;
                    const f32 n0 = x0[v];
                    a1[v] = tl_max_f32(a1[v], n0);
                }
            }
            for (idx j = begin + packs * 4 + TL_ITEM; j < end; j += TL_ITEMS) {
                const f32 n0 = p0[q0 + j];
                a1[0] = tl_max_f32(a1[0], n0);
            }
        }
        for (i32 v = 0; v < 2; ++v) {
            a1[v] = tl_max_f32(a1[v], a1[v + 2]);
        }
        for (i32 v = 0; v < 1; ++v) {
            a1[v] = tl_max_f32(a1[v], a1[v + 1]);
        }
        TL_UNROLL
        for (i32 reach = 16; reach > 0; reach /= 2) {
            const f32 next1 = TL_SHIFT(f32, a1[0], reach);
            a1[0] = tl_max_f32(a1[0], next1);
        }
        if (TL_ITEM % 32 == 0) {
            l1[TL_ITEM / 32] = a1[0];
        }
        TL_BARRIER;
        a1[0] = l1[0];
        for (i32 warp = 1; warp < 2; ++warp) {
            a1[0] = tl_max_f32(a1[0], l1[warp]);
        }
        const f32 n1 = a1[0];
        TL_BARRIER;
        f32 a4[4];
        for (i32 v = 0; v < 4; ++v) a4[v] = 0.0f;
        {
            const idx packs = (end - begin) / 4;
            for (idx pack = TL_ITEM; pack < packs; pack += TL_ITEMS) {
                const idx i = begin + pack * 4;
                const idx j = i;
                f32 x0[4];
                TL_LOAD(4, x0, p0 + q0 + j);
                TL_UNROLL
                for (i32 v = 0; v < 4; ++v) {
                    const idx k = j + v;
                    const f32 n0 = x0[v];
                    const f32 n2 = (n0 - n1);
                    const f32 n3 = tl_exp_f32(n2);
                    a4[v] = (a4[v] + n3);
                }
            }
            for (idx j = begin + packs * 4 + TL_ITEM; j < end; j += TL_ITEMS) {
                const f32 n0 = p0[q0 + j];
                const f32 n2 = (n0 - n1);
                const f32 n3 = tl_exp_f32(n2);
                a4[0] = (a4[0] + n3);
            }
        }
        for (i32 v = 0; v < 2; ++v) {
            a4[v] = (a4[v] + a4[v + 2]);
        }
        for (i32 v = 0; v < 1; ++v) {
            a4[v] = (a4[v] + a4[v + 1]);
        }
        TL_UNROLL
        for (i32 reach = 16; reach > 0; reach /= 2) {
            const f32 next4 = TL_SHIFT(f32, a4[0], reach);
            a4[0] = (a4[0] + next4);
        }
        if (TL_ITEM % 32 == 0) {
            l4[TL_ITEM / 32] = a4[0];
        }
        TL_BARRIER;
        a4[0] = l4[0];
        for (i32 warp = 1; warp < 2; ++warp) {
            a4[0] = (a4[0] + l4[warp]);
        }
        const f32 n4 = a4[0];
        TL_BARRIER;
        {
            const idx packs = (end - begin) / 4;
            for (idx pack = TL_ITEM; pack < packs; pack += TL_ITEMS) {
                const idx i = begin + pack * 4;
                const idx j = i;
                f32 x0[4];
                TL_LOAD(4, x0, p0 + q0 + j);
                f32 y1[4];
                TL_UNROLL
                for (i32 v = 0; v < 4; ++v) {
                    const idx k = j + v;
                    const f32 n0 = x0[v];
                    const f32 n2 = (n0 - n1);
                    const f32 n3 = tl_exp_f32(n2);
                    const f32 n5 = (n3 / n4);
                    y1[v] = n5;
                }
                TL_STORE(4, p1 + q1 + j, y1);
            }
            for (idx j = begin + packs * 4 + TL_ITEM; j < end; j += TL_ITEMS) {
                const f32 n0 = p0[q0 + j];
                const f32 n2 = (n0 - n1);
                const f32 n3 = tl_exp_f32(n2);
                const f32 n5 = (n3 / n4);
                p1[q1 + j] = n5;
            }
        }
    }
}
