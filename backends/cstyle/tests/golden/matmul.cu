/* matmul */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[25]; } tl_words;
TL_KERNEL void __launch_bounds__(256) tl_matmul_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL const f32 * TL_RESTRICT b2, TL_GLOBAL f32 * TL_RESTRICT b3, const __grid_constant__ tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx height = (idx)words.at[2];
    const idx width = (idx)words.at[3];
    const idx o1 = (idx)words.at[4];
    const idx o2 = (idx)words.at[5];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[6]);
    const idx t0_0 = (idx)words.at[7];
    const idx t0_1 = (idx)words.at[8];
    const idx t0_2 = (idx)words.at[9];
    const idx s0_0 = (idx)words.at[10];
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[11]);
    const idx t1_0 = (idx)words.at[12];
    const idx t1_1 = (idx)words.at[13];
    const idx t1_2 = (idx)words.at[14];
    const idx s1_0 = (idx)words.at[15];
    TL_GLOBAL const f32 *const p2 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b2 + words.at[16]);
    const idx t2_0 = (idx)words.at[17];
    const idx t2_1 = (idx)words.at[18];
    const idx t2_2 = (idx)words.at[19];
    TL_GLOBAL f32 *const p3 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b3 + words.at[20]);
    const idx t3_0 = (idx)words.at[21];
    const idx t3_1 = (idx)words.at[22];
    const idx t3_2 = (idx)words.at[23];
    const u64 c0 = (u64)words.at[24];
    TL_LOCAL f32 ta[1040];
    TL_LOCAL f32 tb[1040];
    const i32 x = TL_ITEM % 16, y = TL_ITEM / 16;
    const idx down = (height + 63) / 64;
    const idx across = (width + 63) / 64;
    const idx tiles = rows * down * across;
    for (idx tile = (idx)TL_GROUP; tile < tiles; tile += (idx)TL_GROUPS) {
        const idx strip = tile / down;
        const idx top = (tile - strip * down) * 64;
        idx matrix = strip / across;
        const idx left = (strip - matrix * across) * 64;
        const idx r0 = matrix;
        const idx m0 = r0 * t0_0;
        const idx m1 = r0 * t1_0;
        const idx m2 = r0 * t2_0;
        const idx m3 = r0 * t3_0;
        f32 sums[4][4];
        TL_UNROLL
        for (i32 r = 0; r < 4; ++r) {
            TL_UNROLL
            for (i32 c = 0; c < 4; ++c) sums[r][c] = 0;
        }
        for (idx first = 0; first < total; first += 16) {
            for (i32 s = TL_ITEM; s < 1024; s += 256) {
                const i32 i = s / 16, l = s % 16;
                const bool inside = top + i < height && first + l < total;
                ta[l * 65 + i] = inside ? (f32)(tl_f32_of_f16(p0[m0 + (top + i) * t0_1 + (first + l) * s0_0])) : 0;
            }
            for (i32 s = TL_ITEM; s < 1024; s += 256) {
                const i32 i = s / 16, l = s % 16;
                const bool inside = left + i < width && first + l < total;
                tb[l * 65 + i] = inside ? (f32)(tl_f32_of_f16(p1[m1 + (left + i) * t1_2 + (first + l) * s1_0])) : 0;
            }
            TL_BARRIER;
            TL_UNROLL
            for (i32 l = 0; l < 16; ++l) {
                f32 va[4], vb[4];
                TL_UNROLL
                for (i32 r = 0; r < 4; ++r) va[r] = ta[l * 65 + y + r * 16];
                TL_UNROLL
                for (i32 c = 0; c < 4; ++c) vb[c] = tb[l * 65 + x + c * 16];
                TL_UNROLL
                for (i32 r = 0; r < 4; ++r) {
                    TL_UNROLL
                    for (i32 c = 0; c < 4; ++c) sums[r][c] = tl_fma_f32(va[r], vb[c], sums[r][c]);
                }
            }
            TL_BARRIER;
        }
        TL_UNROLL
        for (i32 r = 0; r < 4; ++r) {
            TL_UNROLL
            for (i32 c = 0; c < 4; ++c) {
                const idx i = top + y + r * 16, j = left + x + c * 16;
                if (i < height && j < width) {
                    const idx r1 = i;
                    const idx r2 = j;
                    const idx q2 = m2 + i * t2_1 + j * t2_2;
                    const idx q3 = m3 + i * t3_1 + j * t3_2;
                    const f32 n5 = (f32)sums[r][c];
                    const f32 n6 = p2[q2];
                    const f32 n7 = (n5 + n6);
                    const f32 n8 = tl_f32_of_bits(c0);
                    const f32 n9 = tl_max_f32(n7, n8);
                    p3[q3] = n9;
                }
            }
        }
    }
}
