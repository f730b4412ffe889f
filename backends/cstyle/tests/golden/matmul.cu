/* matmul */
typedef i32 idx;
enum { TL_ITEMS = 32 };
typedef struct { i64 at[13]; } tl_words;
TL_KERNEL void __launch_bounds__(32) tl_matmul_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL const f32 * TL_RESTRICT b2, TL_GLOBAL f32 * TL_RESTRICT b3, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[6]);
    const idx t1_0 = (idx)words.at[7];
    TL_GLOBAL const f32 *const p2 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b2 + words.at[8]);
    const idx t2_0 = (idx)words.at[9];
    TL_GLOBAL f32 *const p3 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b3 + words.at[10]);
    const idx t3_0 = (idx)words.at[11];
    const u64 c0 = (u64)words.at[12];
    TL_LOCAL f32 l5[1];
    for (idx unit = (idx)TL_GROUP; unit < rows; unit += (idx)TL_GROUPS) {
        const idx r = unit;
        const idx begin = 0;
        const idx end = total;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        const idx q2 = r0 * t2_0;
        const idx q3 = r0 * t3_0;
        const f32 n6 = p2[q2];
        const f32 n8 = tl_f32_of_bits(c0);
        f32 a5[8];
        for (i32 v = 0; v < 8; ++v) a5[v] = 0.0f;
        {
            const idx packs = (end - begin) / 8;
            for (idx pack = TL_ITEM; pack < packs; pack += TL_ITEMS) {
                const idx i = begin + pack * 8;
                const idx j = i;
                u32 x0[4];
                TL_LOAD(4, x0, (const u32 *)(p0 + q0 + j));
                u32 x1[4];
                TL_LOAD(4, x1, (const u32 *)(p1 + q1 + j));
                TL_UNROLL
                for (i32 v = 0; v < 8; v += 2) {
                    const idx k0 = j + v, k1 = k0 + 1;
                    const u32 h0 = x0[v / 2];
                    const f32 n0_0 = tl_low_f16(h0);
                    const f32 n0_1 = tl_high_f16(h0);
                    const f32 n1_0 = n0_0;
                    const f32 n1_1 = n0_1;
                    const u32 h2 = x1[v / 2];
                    const f32 n2_0 = tl_low_f16(h2);
                    const f32 n2_1 = tl_high_f16(h2);
                    const f32 n3_0 = n2_0;
                    const f32 n3_1 = n2_1;
                    const f32 n4_0 = (n1_0 * n3_0);
                    const f32 n4_1 = (n1_1 * n3_1);
                    a5[v] = (a5[v] + n4_0);
                    a5[v + 1] = (a5[v + 1] + n4_1);
                }
            }
            for (idx j = begin + packs * 8 + TL_ITEM; j < end; j += TL_ITEMS) {
                const f32 n0 = tl_f32_of_f16(p0[q0 + j]);
                const f32 n1 = n0;
                const f32 n2 = tl_f32_of_f16(p1[q1 + j]);
                const f32 n3 = n2;
                const f32 n4 = (n1 * n3);
                a5[0] = (a5[0] + n4);
            }
        }
        for (i32 v = 0; v < 4; ++v) {
            a5[v] = (a5[v] + a5[v + 4]);
        }
        for (i32 v = 0; v < 2; ++v) {
            a5[v] = (a5[v] + a5[v + 2]);
        }
        for (i32 v = 0; v < 1; ++v) {
            a5[v] = (a5[v] + a5[v + 1]);
        }
        TL_UNROLL
        for (i32 reach = 16; reach > 0; reach /= 2) {
            const f32 next5 = TL_SHIFT(f32, a5[0], reach);
            a5[0] = (a5[0] + next5);
        }
        if (TL_ITEM % 32 == 0) {
            l5[TL_ITEM / 32] = a5[0];
        }
        TL_BARRIER;
        a5[0] = l5[0];
        for (i32 warp = 1; warp < 1; ++warp) {
            a5[0] = (a5[0] + l5[warp]);
        }
        const f32 n5 = a5[0];
        TL_BARRIER;
        const f32 n7 = (n5 + n6);
        const f32 n9 = tl_max_f32(n7, n8);
        if (TL_ITEM == 0) {
            p3[q3] = n9;
        }
    }
}
