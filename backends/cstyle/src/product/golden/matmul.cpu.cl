/* matmul */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[27]; } tl_words;
TL_KERNEL void tl_matmul_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL const f32 * TL_RESTRICT b2, TL_GLOBAL f32 * TL_RESTRICT b3, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx height = (idx)words.at[4];
    const idx width = (idx)words.at[5];
    const idx o1 = (idx)words.at[6];
    const idx o2 = (idx)words.at[7];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[8]);
    const idx t0_0 = (idx)words.at[9];
    const idx t0_1 = (idx)words.at[10];
    const idx t0_2 = (idx)words.at[11];
    const idx s0_0 = (idx)words.at[12];
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[13]);
    const idx t1_0 = (idx)words.at[14];
    const idx t1_1 = (idx)words.at[15];
    const idx t1_2 = (idx)words.at[16];
    const idx s1_0 = (idx)words.at[17];
    TL_GLOBAL const f32 *const p2 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b2 + words.at[18]);
    const idx t2_0 = (idx)words.at[19];
    const idx t2_1 = (idx)words.at[20];
    const idx t2_2 = (idx)words.at[21];
    TL_GLOBAL f32 *const p3 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b3 + words.at[22]);
    const idx t3_0 = (idx)words.at[23];
    const idx t3_1 = (idx)words.at[24];
    const idx t3_2 = (idx)words.at[25];
    const u64 c0 = (u64)words.at[26];
    float16 packed[512];
    float16 sums[256];
    const idx down = (height + 127) / 128;
    const idx across = (width + 31) / 32;
    const idx tiles = rows * down * across;
    for (idx tile = (idx)TL_GROUP; tile < tiles; tile += (idx)TL_GROUPS) {
        const idx strip = tile / down;
        const idx top = (tile - strip * down) * 128;
        idx matrix = strip / across;
        const idx left = (strip - matrix * across) * 32;
        const idx r0 = matrix;
        const idx m0 = r0 * t0_0;
        const idx m1 = r0 * t1_0;
        const idx m2 = r0 * t2_0;
        const idx m3 = r0 * t3_0;
        const idx bottom = height - top < 128 ? height - top : 128;
        for (idx s = 0; s < (bottom + 7) / 8 * 16; ++s) sums[s] = 0;
        for (idx first = 0; first < total; first += 256) {
            const idx depth = total - first < 256 ? total - first : 256;
            for (idx l = 0; l < depth; ++l) {
                TL_GLOBAL const u16 *const from = p1 + (m1 + left * t1_2 + (first + l) * s1_0);
                f32 *const to = (f32 *)&packed[l * 2];
                const i32 inside = width - left < 32 ? width - left : 32;
                if (inside == 32) {
                    TL_PARALLEL
                    for (i32 j = 0; j < 32; ++j) to[j] = (f32)(tl_f32_of_f16(from[j]));
                }
                else {
                    for (i32 j = 0; j < inside; ++j) to[j] = (f32)(tl_f32_of_f16(from[j]));
                    for (i32 j = inside; j < 32; ++j) to[j] = 0;
                }
            }
            for (idx part = 0; part < bottom; part += 8) {
                const idx i0 = top + part + 0 < height ? top + part + 0 : height - 1;
                TL_GLOBAL const u16 *const a0 = p0 + (m0 + i0 * t0_1 + first);
                float16 v0_0 = sums[(part + 0) * 2 + 0];
                float16 v0_1 = sums[(part + 0) * 2 + 1];
                const idx i1 = top + part + 1 < height ? top + part + 1 : height - 1;
                TL_GLOBAL const u16 *const a1 = p0 + (m0 + i1 * t0_1 + first);
                float16 v1_0 = sums[(part + 1) * 2 + 0];
                float16 v1_1 = sums[(part + 1) * 2 + 1];
                const idx i2 = top + part + 2 < height ? top + part + 2 : height - 1;
                TL_GLOBAL const u16 *const a2 = p0 + (m0 + i2 * t0_1 + first);
                float16 v2_0 = sums[(part + 2) * 2 + 0];
                float16 v2_1 = sums[(part + 2) * 2 + 1];
                const idx i3 = top + part + 3 < height ? top + part + 3 : height - 1;
                TL_GLOBAL const u16 *const a3 = p0 + (m0 + i3 * t0_1 + first);
                float16 v3_0 = sums[(part + 3) * 2 + 0];
                float16 v3_1 = sums[(part + 3) * 2 + 1];
                const idx i4 = top + part + 4 < height ? top + part + 4 : height - 1;
                TL_GLOBAL const u16 *const a4 = p0 + (m0 + i4 * t0_1 + first);
                float16 v4_0 = sums[(part + 4) * 2 + 0];
                float16 v4_1 = sums[(part + 4) * 2 + 1];
                const idx i5 = top + part + 5 < height ? top + part + 5 : height - 1;
                TL_GLOBAL const u16 *const a5 = p0 + (m0 + i5 * t0_1 + first);
                float16 v5_0 = sums[(part + 5) * 2 + 0];
                float16 v5_1 = sums[(part + 5) * 2 + 1];
                const idx i6 = top + part + 6 < height ? top + part + 6 : height - 1;
                TL_GLOBAL const u16 *const a6 = p0 + (m0 + i6 * t0_1 + first);
                float16 v6_0 = sums[(part + 6) * 2 + 0];
                float16 v6_1 = sums[(part + 6) * 2 + 1];
                const idx i7 = top + part + 7 < height ? top + part + 7 : height - 1;
                TL_GLOBAL const u16 *const a7 = p0 + (m0 + i7 * t0_1 + first);
                float16 v7_0 = sums[(part + 7) * 2 + 0];
                float16 v7_1 = sums[(part + 7) * 2 + 1];
                for (idx l = 0; l < depth; ++l) {
                    const float16 b0 = packed[l * 2 + 0];
                    const float16 b1 = packed[l * 2 + 1];
                    const float16 x0 = (float16)((f32)(tl_f32_of_f16(a0[l])));
                    v0_0 = fma(x0, b0, v0_0);
                    v0_1 = fma(x0, b1, v0_1);
                    const float16 x1 = (float16)((f32)(tl_f32_of_f16(a1[l])));
                    v1_0 = fma(x1, b0, v1_0);
                    v1_1 = fma(x1, b1, v1_1);
                    const float16 x2 = (float16)((f32)(tl_f32_of_f16(a2[l])));
                    v2_0 = fma(x2, b0, v2_0);
                    v2_1 = fma(x2, b1, v2_1);
                    const float16 x3 = (float16)((f32)(tl_f32_of_f16(a3[l])));
                    v3_0 = fma(x3, b0, v3_0);
                    v3_1 = fma(x3, b1, v3_1);
                    const float16 x4 = (float16)((f32)(tl_f32_of_f16(a4[l])));
                    v4_0 = fma(x4, b0, v4_0);
                    v4_1 = fma(x4, b1, v4_1);
                    const float16 x5 = (float16)((f32)(tl_f32_of_f16(a5[l])));
                    v5_0 = fma(x5, b0, v5_0);
                    v5_1 = fma(x5, b1, v5_1);
                    const float16 x6 = (float16)((f32)(tl_f32_of_f16(a6[l])));
                    v6_0 = fma(x6, b0, v6_0);
                    v6_1 = fma(x6, b1, v6_1);
                    const float16 x7 = (float16)((f32)(tl_f32_of_f16(a7[l])));
                    v7_0 = fma(x7, b0, v7_0);
                    v7_1 = fma(x7, b1, v7_1);
                }
                sums[(part + 0) * 2 + 0] = v0_0;
                sums[(part + 0) * 2 + 1] = v0_1;
                sums[(part + 1) * 2 + 0] = v1_0;
                sums[(part + 1) * 2 + 1] = v1_1;
                sums[(part + 2) * 2 + 0] = v2_0;
                sums[(part + 2) * 2 + 1] = v2_1;
                sums[(part + 3) * 2 + 0] = v3_0;
                sums[(part + 3) * 2 + 1] = v3_1;
                sums[(part + 4) * 2 + 0] = v4_0;
                sums[(part + 4) * 2 + 1] = v4_1;
                sums[(part + 5) * 2 + 0] = v5_0;
                sums[(part + 5) * 2 + 1] = v5_1;
                sums[(part + 6) * 2 + 0] = v6_0;
                sums[(part + 6) * 2 + 1] = v6_1;
                sums[(part + 7) * 2 + 0] = v7_0;
                sums[(part + 7) * 2 + 1] = v7_1;
            }
        }
        const idx right = width - left < 32 ? width - left : 32;
        for (idx di = 0; di < bottom; ++di) {
            const f32 *const line = (const f32 *)&sums[di * 2];
            TL_PARALLEL
            for (idx dj = 0; dj < right; ++dj) {
                const idx i = top + di, j = left + dj;
                const idx r1 = i;
                const idx r2 = j;
                const idx q2 = m2 + i * t2_1 + r2 * t2_2;
                const idx q3 = m3 + i * t3_1 + r2 * t3_2;
                const f32 n5 = (f32)line[dj];
                const f32 n6 = p2[q2];
                const f32 n7 = (n5 + n6);
                const f32 n8 = tl_f32_of_bits(c0);
                const f32 n9 = tl_max_f32(n7, n8);
                p3[q3] = n9;
            }
        }
    }
}
