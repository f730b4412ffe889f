/* swish */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[9]; } tl_words;
TL_KERNEL void __launch_bounds__(256) tl_swish_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL u16 * TL_RESTRICT b2, TL_GLOBAL u16 * TL_RESTRICT b3, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[5]);
    TL_GLOBAL u16 *const p2 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b2 + words.at[6]);
    TL_GLOBAL u16 *const p3 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b3 + words.at[7]);
    const u64 c0 = (u64)words.at[8];
    const f32 n1 = tl_f32_of_f16((u16)c0);
    const idx item = (idx)TL_GROUP * 256 + TL_ITEM;
    const idx items = (idx)TL_GROUPS * 256;
    const idx packs = (total - 0) / 8;
    for (idx pack = item; pack < packs; pack += items) {
        const idx i = 0 + pack * 8;
        const idx j = i;
        u32 x0[4];
        TL_LOAD(4, x0, (const u32 *)(p0 + j));
        u32 x1[4];
        TL_LOAD(4, x1, (const u32 *)(p1 + j));
        u32 y2[4];
        u32 y3[4];
        const u32 h1 = tl_pair_f16(n1, n1);
        TL_UNROLL
        for (i32 v = 0; v < 8; v += 2) {
            const idx k0 = j + v, k1 = k0 + 1;
            const u32 h0 = x0[v / 2];
            const f32 n0_0 = tl_low_f16(h0);
            const f32 n0_1 = tl_high_f16(h0);
            const f32 n2_0 = (-n0_0);
            const f32 n2_1 = (-n0_1);
            const f32 z3_0 = tl_exp_f32(n2_0);
            const f32 z3_1 = tl_exp_f32(n2_1);
            const u32 h3 = tl_pair_f16(z3_0, z3_1);
            const u32 h4 = tl_add_f16x2(h3, h1);
            const f32 n4_0 = tl_low_f16(h4);
            const f32 n4_1 = tl_high_f16(h4);
            const f32 z5_0 = (n0_0 / n4_0);
            const f32 z5_1 = (n0_1 / n4_1);
            const u32 h5 = tl_pair_f16(z5_0, z5_1);
            const f32 n5_0 = tl_low_f16(h5);
            const f32 n5_1 = tl_high_f16(h5);
            const u32 h6 = x1[v / 2];
            const f32 n6_0 = tl_low_bf16(h6);
            const f32 n6_1 = tl_high_bf16(h6);
            const f32 z7_0 = n5_0;
            const f32 z7_1 = n5_1;
            const u32 h7 = tl_pair_bf16(z7_0, z7_1);
            const u32 h8 = tl_max_bf16x2(h6, h7);
            const f32 n8_0 = tl_low_bf16(h8);
            const f32 n8_1 = tl_high_bf16(h8);
            const bool n9_0 = (n6_0 < n8_0);
            const bool n9_1 = (n6_1 < n8_1);
            const u32 h10 = tl_select_x2(n9_0, n9_1, h6, h8);
            y2[v / 2] = h5;
            y3[v / 2] = h10;
        }
        TL_STORE(4, (u32 *)(p2 + j), y2);
        TL_STORE(4, (u32 *)(p3 + j), y3);
    }
    for (idx j = 0 + packs * 8 + item; j < total; j += items) {
        const f32 n0 = tl_f32_of_f16(p0[j]);
        const f32 n2 = (-n0);
        const f32 n3 = tl_to_f16(tl_exp_f32(n2));
        const f32 n4 = tl_to_f16((n3 + n1));
        const f32 z5 = (n0 / n4);
        const f32 n5 = tl_to_f16(z5);
        const f32 n6 = tl_f32_of_bf16(p1[j]);
        const f32 n7 = tl_to_bf16(n5);
        const f32 n8 = tl_max_f32(n6, n7);
        const bool n9 = (n6 < n8);
        const f32 n10 = (n9 ? n6 : n8);
        p2[j] = tl_f16_of_f32(z5);
        p3[j] = tl_bf16_of_f32(n10);
    }
}
