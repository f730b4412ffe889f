/* softmax */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[8]; } tl_words;
TL_KERNEL void tl_softmax_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[6]);
    const idx t1_0 = (idx)words.at[7];
    const i64 slot = (i64)rows * chunks * 8;
    TL_GLOBAL f32 *const z1 = (TL_GLOBAL f32 *)(scratch + 0 * slot);
    TL_GLOBAL f32 *const z4 = (TL_GLOBAL f32 *)(scratch + 1 * slot);
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
        f32 a1[32];
        for (i32 v = 0; v < 32; ++v) a1[v] = tl_f32_of_bits(0xff800000u);
        {
            idx j = begin;
            for (; j + 32 <= end; j += 32) {
                TL_PARALLEL
                for (i32 v = 0; v < 32; ++v) {
                    const idx k = j + v;
                    const f32 n0 = p0[q0 + k];
                    a1[v] = tl_max_f32(a1[v], n0);
                }
            }
            for (; j < end; ++j) {
                const f32 n0 = p0[q0 + j];
                a1[0] = tl_max_f32(a1[0], n0);
            }
        }
        for (i32 v = 0; v < 16; ++v) {
            a1[v] = tl_max_f32(a1[v], a1[v + 16]);
        }
        for (i32 v = 0; v < 8; ++v) {
            a1[v] = tl_max_f32(a1[v], a1[v + 8]);
        }
        for (i32 v = 0; v < 4; ++v) {
            a1[v] = tl_max_f32(a1[v], a1[v + 4]);
        }
        for (i32 v = 0; v < 2; ++v) {
            a1[v] = tl_max_f32(a1[v], a1[v + 2]);
        }
        for (i32 v = 0; v < 1; ++v) {
            a1[v] = tl_max_f32(a1[v], a1[v + 1]);
        }
        const f32 n1 = a1[0];
        z1[unit] = (f32)n1;
    }
}
TL_KERNEL void tl_softmax_1(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[6]);
    const idx t1_0 = (idx)words.at[7];
    const i64 slot = (i64)rows * chunks * 8;
    TL_GLOBAL f32 *const z1 = (TL_GLOBAL f32 *)(scratch + 0 * slot);
    TL_GLOBAL f32 *const z4 = (TL_GLOBAL f32 *)(scratch + 1 * slot);
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
        f32 a1_all = tl_f32_of_bits(0xff800000u);
        for (idx c = 0; c < chunks; c += 1) {
            const idx at = r * chunks + c;
            const f32 value1 = (f32)z1[at];
            a1_all = tl_max_f32(a1_all, value1);
        }
        const f32 n1 = a1_all;
        f32 a4[32];
        for (i32 v = 0; v < 32; ++v) a4[v] = 0.0f;
        {
            idx j = begin;
            for (; j + 32 <= end; j += 32) {
                TL_PARALLEL
                for (i32 v = 0; v < 32; ++v) {
                    const idx k = j + v;
                    const f32 n0 = p0[q0 + k];
                    const f32 n2 = (n0 - n1);
                    const f32 n3 = tl_exp_f32(n2);
                    a4[v] = (a4[v] + n3);
                }
            }
            for (; j < end; ++j) {
                const f32 n0 = p0[q0 + j];
                const f32 n2 = (n0 - n1);
                const f32 n3 = tl_exp_f32(n2);
                a4[0] = (a4[0] + n3);
            }
        }
        for (i32 v = 0; v < 16; ++v) {
            a4[v] = (a4[v] + a4[v + 16]);
        }
        for (i32 v = 0; v < 8; ++v) {
            a4[v] = (a4[v] + a4[v + 8]);
        }
        for (i32 v = 0; v < 4; ++v) {
            a4[v] = (a4[v] + a4[v + 4]);
        }
        for (i32 v = 0; v < 2; ++v) {
            a4[v] = (a4[v] + a4[v + 2]);
        }
        for (i32 v = 0; v < 1; ++v) {
            a4[v] = (a4[v] + a4[v + 1]);
        }
        const f32 n4 = a4[0];
        z4[unit] = (f32)n4;
    }
}
TL_KERNEL void tl_softmax_2(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL f32 * TL_RESTRICT b1, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[4]);
    const idx t0_0 = (idx)words.at[5];
    TL_GLOBAL f32 *const p1 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b1 + words.at[6]);
    const idx t1_0 = (idx)words.at[7];
    const i64 slot = (i64)rows * chunks * 8;
    TL_GLOBAL f32 *const z1 = (TL_GLOBAL f32 *)(scratch + 0 * slot);
    TL_GLOBAL f32 *const z4 = (TL_GLOBAL f32 *)(scratch + 1 * slot);
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
        f32 a1_all = tl_f32_of_bits(0xff800000u);
        for (idx c = 0; c < chunks; c += 1) {
            const idx at = r * chunks + c;
            const f32 value1 = (f32)z1[at];
            a1_all = tl_max_f32(a1_all, value1);
        }
        const f32 n1 = a1_all;
        f32 a4_all = 0.0f;
        for (idx c = 0; c < chunks; c += 1) {
            const idx at = r * chunks + c;
            const f32 value4 = (f32)z4[at];
            a4_all = (a4_all + value4);
        }
        const f32 n4 = a4_all;
        {
            idx j = begin;
            for (; j + 32 <= end; j += 32) {
                TL_PARALLEL
                for (i32 v = 0; v < 32; ++v) {
                    const idx k = j + v;
                    const f32 n0 = p0[q0 + k];
                    const f32 n2 = (n0 - n1);
                    const f32 n3 = tl_exp_f32(n2);
                    const f32 n5 = (n3 / n4);
                    p1[q1 + k] = n5;
                }
            }
            for (; j < end; ++j) {
                const f32 n0 = p0[q0 + j];
                const f32 n2 = (n0 - n1);
                const f32 n3 = tl_exp_f32(n2);
                const f32 n5 = (n3 / n4);
                p1[q1 + j] = n5;
            }
        }
    }
}
