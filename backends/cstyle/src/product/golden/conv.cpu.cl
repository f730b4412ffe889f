/* conv */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[50]; } tl_words;
TL_KERNEL void tl_conv_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL const f32 * TL_RESTRICT b1, TL_GLOBAL f32 * TL_RESTRICT b2, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx height = (idx)words.at[4];
    const idx width = (idx)words.at[5];
    const idx fc0 = (idx)words.at[6];
    const idx fd0 = (idx)words.at[7];
    const idx fs0 = (idx)words.at[8];
    const idx by0 = (idx)words.at[9];
    const idx fc1 = (idx)words.at[10];
    const idx fd1 = (idx)words.at[11];
    const idx fs1 = (idx)words.at[12];
    const idx by1 = (idx)words.at[13];
    const idx o1 = (idx)words.at[14];
    const idx o2 = (idx)words.at[15];
    const idx o3 = (idx)words.at[16];
    const idx o4 = (idx)words.at[17];
    const idx e1 = (idx)words.at[18];
    const idx e2 = (idx)words.at[19];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[20]);
    const idx t0_0 = (idx)words.at[21];
    const idx t0_1 = (idx)words.at[22];
    const idx t0_2 = (idx)words.at[23];
    const idx t0_3 = (idx)words.at[24];
    const idx t0_4 = (idx)words.at[25];
    const idx s0_0 = (idx)words.at[26];
    const idx s0_1 = (idx)words.at[27];
    const idx s0_2 = (idx)words.at[28];
    const idx gs0 = (idx)words.at[29];
    const u64 ge0 = (u64)words.at[30];
    TL_GLOBAL const f32 *const p1 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b1 + words.at[31]);
    const idx t1_0 = (idx)words.at[32];
    const idx t1_1 = (idx)words.at[33];
    const idx t1_2 = (idx)words.at[34];
    const idx t1_3 = (idx)words.at[35];
    const idx t1_4 = (idx)words.at[36];
    const idx s1_0 = (idx)words.at[37];
    const idx s1_1 = (idx)words.at[38];
    const idx s1_2 = (idx)words.at[39];
    TL_GLOBAL f32 *const p2 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b2 + words.at[40]);
    const idx t2_0 = (idx)words.at[41];
    const idx t2_1 = (idx)words.at[42];
    const idx t2_2 = (idx)words.at[43];
    const idx t2_3 = (idx)words.at[44];
    const idx t2_4 = (idx)words.at[45];
    const u64 c0 = (u64)words.at[46];
    const u64 c1 = (u64)words.at[47];
    const u64 c2 = (u64)words.at[48];
    const u64 c3 = (u64)words.at[49];
    float16 packed[512];
    float16 sums[256];
    const idx h0 = (idx)c0, w0 = (idx)c2 * gs0;
    const idx h1 = (idx)c1, w1 = (idx)c3 * gs0;
    idx cr0[32];
    idx cr3[32];
    idx cr4[32];
    idx cb[32];
    idx lb[256];
    idx cu0[32];
    idx lu0[256];
    idx cu1[32];
    idx lu1[256];
    const idx down = (height + 127) / 128;
    const idx across = (width + 31) / 32;
    const idx tiles = rows * down * across;
    for (idx tile = (idx)TL_GROUP; tile < tiles; tile += (idx)TL_GROUPS) {
        const idx strip = tile / down;
        const idx top = (tile - strip * down) * 128;
        idx matrix = strip / across;
        const idx left = (strip - matrix * across) * 32;
        const idx r1 = matrix;
        const idx m0 = r1 * t0_1;
        const idx m1 = r1 * t1_1;
        const idx m2 = r1 * t2_1;
        {
            idx rest = left;
            idx x4 = rest % o4;
            rest /= o4;
            idx x3 = rest % o3;
            rest /= o3;
            idx x0 = rest;
            for (i32 j = 0; j < 32; ++j) {
                const bool past = left + j >= width;
                cr0[j] = x0;
                cr3[j] = x3;
                cr4[j] = x4;
                cb[j] = x0 * t0_0;
                const idx place0 = x3 * fc0 + fs0;
                cu0[j] = past ? -1 - ((idx)1 << 30) : place0;
                const idx place1 = x4 * fc1 + fs1;
                cu1[j] = past ? -1 - ((idx)1 << 30) : place1;
                ++x4;
                if (x4 == o4) {
                    x4 = 0;
                    ++x3;
                    if (x3 == o3) {
                        x3 = 0;
                        ++x0;
                    }
                }
            }
        }
        const idx bottom = height - top < 128 ? height - top : 128;
        for (idx s = 0; s < (bottom + 7) / 8 * 16; ++s) sums[s] = 0;
        for (idx first = 0; first < total; first += 256) {
            const idx depth = total - first < 256 ? total - first : 256;
            {
                idx rest = first;
                idx y2 = rest % e2;
                rest /= e2;
                idx y1 = rest % e1;
                rest /= e1;
                idx y0 = rest;
                for (i32 l = 0; l < (i32)depth; ++l) {
                    lb[l] = y0 * s0_0;
                    const idx place0 = y1 * fd0;
                    lu0[l] = place0;
                    const idx place1 = y2 * fd1;
                    lu1[l] = place1;
                    ++y2;
                    if (y2 == e2) {
                        y2 = 0;
                        ++y1;
                        if (y1 == e1) {
                            y1 = 0;
                            ++y0;
                        }
                    }
                }
            }
            for (i32 l = 0; l < (i32)depth; ++l) {
                f32 *const to = (f32 *)&packed[l * 2];
                TL_PARALLEL
                for (i32 j = 0; j < 32; ++j) {
                    const idx u0 = cu0[j] + lu0[l];
                    const idx u1 = cu1[j] + lu1[l];
                    to[j] = ((u0 >= 0) & (u0 < h0) & (u1 >= 0) & (u1 < h1)) ? (f32)(p0[m0 + cb[j] + lb[l] + u0 * w0 + u1 * w1]) : 0;
                }
            }
            for (idx part = 0; part < bottom; part += 8) {
                const idx i0 = top + part + 0 < height ? top + part + 0 : height - 1;
                TL_GLOBAL const f32 *const a0 = p1 + (m1 + i0 * t1_2 + first);
                float16 v0_0 = sums[(part + 0) * 2 + 0];
                float16 v0_1 = sums[(part + 0) * 2 + 1];
                const idx i1 = top + part + 1 < height ? top + part + 1 : height - 1;
                TL_GLOBAL const f32 *const a1 = p1 + (m1 + i1 * t1_2 + first);
                float16 v1_0 = sums[(part + 1) * 2 + 0];
                float16 v1_1 = sums[(part + 1) * 2 + 1];
                const idx i2 = top + part + 2 < height ? top + part + 2 : height - 1;
                TL_GLOBAL const f32 *const a2 = p1 + (m1 + i2 * t1_2 + first);
                float16 v2_0 = sums[(part + 2) * 2 + 0];
                float16 v2_1 = sums[(part + 2) * 2 + 1];
                const idx i3 = top + part + 3 < height ? top + part + 3 : height - 1;
                TL_GLOBAL const f32 *const a3 = p1 + (m1 + i3 * t1_2 + first);
                float16 v3_0 = sums[(part + 3) * 2 + 0];
                float16 v3_1 = sums[(part + 3) * 2 + 1];
                const idx i4 = top + part + 4 < height ? top + part + 4 : height - 1;
                TL_GLOBAL const f32 *const a4 = p1 + (m1 + i4 * t1_2 + first);
                float16 v4_0 = sums[(part + 4) * 2 + 0];
                float16 v4_1 = sums[(part + 4) * 2 + 1];
                const idx i5 = top + part + 5 < height ? top + part + 5 : height - 1;
                TL_GLOBAL const f32 *const a5 = p1 + (m1 + i5 * t1_2 + first);
                float16 v5_0 = sums[(part + 5) * 2 + 0];
                float16 v5_1 = sums[(part + 5) * 2 + 1];
                const idx i6 = top + part + 6 < height ? top + part + 6 : height - 1;
                TL_GLOBAL const f32 *const a6 = p1 + (m1 + i6 * t1_2 + first);
                float16 v6_0 = sums[(part + 6) * 2 + 0];
                float16 v6_1 = sums[(part + 6) * 2 + 1];
                const idx i7 = top + part + 7 < height ? top + part + 7 : height - 1;
                TL_GLOBAL const f32 *const a7 = p1 + (m1 + i7 * t1_2 + first);
                float16 v7_0 = sums[(part + 7) * 2 + 0];
                float16 v7_1 = sums[(part + 7) * 2 + 1];
                for (idx l = 0; l < depth; ++l) {
                    const float16 b0 = packed[l * 2 + 0];
                    const float16 b1 = packed[l * 2 + 1];
                    const float16 x0 = (float16)((f32)(a0[l]));
                    v0_0 = fma(x0, b0, v0_0);
                    v0_1 = fma(x0, b1, v0_1);
                    const float16 x1 = (float16)((f32)(a1[l]));
                    v1_0 = fma(x1, b0, v1_0);
                    v1_1 = fma(x1, b1, v1_1);
                    const float16 x2 = (float16)((f32)(a2[l]));
                    v2_0 = fma(x2, b0, v2_0);
                    v2_1 = fma(x2, b1, v2_1);
                    const float16 x3 = (float16)((f32)(a3[l]));
                    v3_0 = fma(x3, b0, v3_0);
                    v3_1 = fma(x3, b1, v3_1);
                    const float16 x4 = (float16)((f32)(a4[l]));
                    v4_0 = fma(x4, b0, v4_0);
                    v4_1 = fma(x4, b1, v4_1);
                    const float16 x5 = (float16)((f32)(a5[l]));
                    v5_0 = fma(x5, b0, v5_0);
                    v5_1 = fma(x5, b1, v5_1);
                    const float16 x6 = (float16)((f32)(a6[l]));
                    v6_0 = fma(x6, b0, v6_0);
                    v6_1 = fma(x6, b1, v6_1);
                    const float16 x7 = (float16)((f32)(a7[l]));
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
                const idx r2 = i;
                const idx r0 = cr0[dj];
                const idx r3 = cr3[dj];
                const idx r4 = cr4[dj];
                const idx q2 = m2 + i * t2_2 + r0 * t2_0 + r3 * t2_3 + r4 * t2_4;
                const f32 n38 = (f32)line[dj];
                p2[q2] = n38;
            }
        }
    }
}
