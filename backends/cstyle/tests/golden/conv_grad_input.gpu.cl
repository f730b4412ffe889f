/* conv_grad_input */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[50]; } tl_words;
TL_KERNEL void tl_conv_grad_input_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL const f32 * TL_RESTRICT b1, TL_GLOBAL f32 * TL_RESTRICT b2, const tl_words words) {
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
    TL_LOCAL f32 ta[1040];
    TL_LOCAL f32 tb[1040];
    const i32 x = TL_ITEM % 16, y = TL_ITEM / 16;
    const idx h0 = (idx)c0, w0 = (idx)c2 * gs0;
    const idx h1 = (idx)c1, w1 = (idx)c3 * gs0;
    TL_LOCAL idx cr0[64];
    TL_LOCAL idx cr3[64];
    TL_LOCAL idx cr4[64];
    TL_LOCAL idx cb[64];
    TL_LOCAL idx lb[16];
    TL_LOCAL idx cu0[64];
    TL_LOCAL idx lu0[16];
    TL_LOCAL idx cv0[64];
    TL_LOCAL idx lv0[16];
    TL_LOCAL idx cu1[64];
    TL_LOCAL idx lu1[16];
    TL_LOCAL idx cv1[64];
    TL_LOCAL idx lv1[16];
    const idx down = (height + 63) / 64;
    const idx across = (width + 63) / 64;
    const idx tiles = rows * down * across;
    for (idx tile = (idx)TL_GROUP; tile < tiles; tile += (idx)TL_GROUPS) {
        const idx strip = tile / down;
        const idx top = (tile - strip * down) * 64;
        idx matrix = strip / across;
        const idx left = (strip - matrix * across) * 64;
        const idx r1 = matrix;
        const idx m0 = r1 * t0_1;
        const idx m1 = r1 * t1_1;
        const idx m2 = r1 * t2_1;
        TL_BARRIER;
        for (i32 j = TL_ITEM; j < 64; j += 256) {
            idx rest = left + j;
            idx x4 = rest % o4;
            rest /= o4;
            idx x3 = rest % o3;
            rest /= o3;
            idx x0 = rest;
            const bool past = left + j >= width;
            cr0[j] = x0;
            cr3[j] = x3;
            cr4[j] = x4;
            cb[j] = x0 * t0_0;
            const idx place0 = x3 * fc0 + fs0;
            const idx whole0 = (place0 - (place0 < 0 ? by0 - 1 : 0)) / by0;
            cv0[j] = place0 - whole0 * by0;
            cu0[j] = past ? -1 - ((idx)1 << 30) : whole0;
            const idx place1 = x4 * fc1 + fs1;
            const idx whole1 = (place1 - (place1 < 0 ? by1 - 1 : 0)) / by1;
            cv1[j] = place1 - whole1 * by1;
            cu1[j] = past ? -1 - ((idx)1 << 30) : whole1;
        }
        TL_BARRIER;
        f32 sums[4][4];
        TL_UNROLL
        for (i32 r = 0; r < 4; ++r) {
            TL_UNROLL
            for (i32 c = 0; c < 4; ++c) sums[r][c] = 0;
        }
        for (idx first = 0; first < total; first += 16) {
            for (i32 l = TL_ITEM; l < 16; l += 256) {
                idx rest = first + l;
                idx y2 = rest % e2;
                rest /= e2;
                idx y1 = rest % e1;
                rest /= e1;
                idx y0 = rest;
                lb[l] = y0 * s0_0;
                const idx place0 = y1 * fd0;
                const idx whole0 = (place0 - (place0 < 0 ? by0 - 1 : 0)) / by0;
                lv0[l] = place0 - whole0 * by0;
                lu0[l] = whole0;
                const idx place1 = y2 * fd1;
                const idx whole1 = (place1 - (place1 < 0 ? by1 - 1 : 0)) / by1;
                lv1[l] = place1 - whole1 * by1;
                lu1[l] = whole1;
            }
            TL_BARRIER;
            for (i32 s = TL_ITEM; s < 1024; s += 256) {
                const i32 i = s / 16, l = s % 16;
                const bool inside = top + i < height && first + l < total;
                ta[l * 65 + i] = inside ? (f32)(p1[m1 + (top + i) * t1_2 + first + l]) : 0;
            }
            for (i32 s = TL_ITEM; s < 1024; s += 256) {
                const i32 i = s % 64, l = s / 64;
                const bool inside = left + i < width && first + l < total;
                const idx v0 = cv0[i] + lv0[l];
                const idx u0 = cu0[i] + lu0[l] + (v0 != 0);
                const idx v1 = cv1[i] + lv1[l];
                const idx u1 = cu1[i] + lu1[l] + (v1 != 0);
                tb[l * 65 + i] = inside && (((v0 == 0) | (v0 == by0)) & (u0 >= 0) & (u0 < h0) & ((v1 == 0) | (v1 == by1)) & (u1 >= 0) & (u1 < h1)) ? (f32)(p0[m0 + cb[i] + lb[l] + u0 * w0 + u1 * w1]) : 0;
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
                    const idx r2 = i;
                    const idx r0 = cr0[x + c * 16];
                    const idx r3 = cr3[x + c * 16];
                    const idx r4 = cr4[x + c * 16];
                    const idx q2 = m2 + i * t2_2 + r0 * t2_0 + r3 * t2_3 + r4 * t2_4;
                    const f32 n44 = (f32)sums[r][c];
                    p2[q2] = n44;
                }
            }
        }
    }
}
