/* attention */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[42]; } tl_words;
typedef u16 tl_in;
typedef f32 tl_sum;
typedef u8 tl_mask;
enum { TL_CAUSAL = 1, TL_ROWS = 128, TL_COLUMNS = 128, TL_KEYS = 64, TL_DEPTH = 64, TL_LANES = 16, TL_AT_ONCE = 8 };
TL_FN tl_sum tl_wide(const tl_in element) { return tl_f32_of_f16(element); }
TL_FN tl_in tl_narrow(const tl_sum value) { return tl_f16_of_f32(tl_to_f16(value)); }
TL_FN tl_sum tl_masked(const tl_sum score, TL_GLOBAL const tl_mask *const at) { return *at != 0 ? score : tl_f32_of_bits(0xff800000u); }
TL_FN tl_sum tl_power(const tl_sum value) { return tl_exp_f32(value); }
typedef float16 tl_vector;
/* Adds the product of `rows` rows of `depth` elements and of `depth` rows of vectors to rows of vectors. */
TL_FN void tl_multiply(const tl_sum *const a, const i32 a_pitch, const tl_vector *const b, const i32 b_pitch,
                       tl_vector *const c, const i32 c_pitch, const i32 rows, const i32 depth, const i32 vectors) {
    for (i32 i = 0; i < rows; i += TL_AT_ONCE) {
        for (i32 v = 0; v < vectors; v += 2) {
            tl_vector s[TL_AT_ONCE], t[TL_AT_ONCE];
            TL_UNROLL
            for (i32 r = 0; r < TL_AT_ONCE; ++r) {
                s[r] = c[(i + r) * c_pitch + v];
                t[r] = c[(i + r) * c_pitch + v + 1];
            }
            for (i32 l = 0; l < depth; ++l) {
                const tl_vector x = b[l * b_pitch + v], y = b[l * b_pitch + v + 1];
                TL_UNROLL
                for (i32 r = 0; r < TL_AT_ONCE; ++r) {
                    const tl_vector own = (tl_vector)(a[(i + r) * a_pitch + l]);
                    s[r] = fma(own, x, s[r]);
                    t[r] = fma(own, y, t[r]);
                }
            }
            TL_UNROLL
            for (i32 r = 0; r < TL_AT_ONCE; ++r) {
                c[(i + r) * c_pitch + v] = s[r];
                c[(i + r) * c_pitch + v + 1] = t[r];
            }
        }
    }
}
TL_KERNEL void tl_attention_0(TL_GLOBAL const u16 * TL_RESTRICT b0, TL_GLOBAL const u16 * TL_RESTRICT b1, TL_GLOBAL const u16 * TL_RESTRICT b2, TL_GLOBAL const u8 * TL_RESTRICT b3, TL_GLOBAL u16 * TL_RESTRICT b4, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const idx height = (idx)words.at[4];
    const idx width = (idx)words.at[5];
    const idx o1 = (idx)words.at[6];
    const idx o2 = (idx)words.at[7];
    const idx o3 = (idx)words.at[8];
    const idx e1 = (idx)words.at[9];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[10]);
    const idx t0_0 = (idx)words.at[11];
    const idx t0_1 = (idx)words.at[12];
    const idx t0_2 = (idx)words.at[13];
    const idx t0_3 = (idx)words.at[14];
    const idx s0_0 = (idx)words.at[15];
    TL_GLOBAL const u16 *const p1 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b1 + words.at[16]);
    const idx t1_0 = (idx)words.at[17];
    const idx t1_1 = (idx)words.at[18];
    const idx t1_2 = (idx)words.at[19];
    const idx t1_3 = (idx)words.at[20];
    const idx s1_0 = (idx)words.at[21];
    TL_GLOBAL const u16 *const p2 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b2 + words.at[22]);
    const idx t2_0 = (idx)words.at[23];
    const idx t2_1 = (idx)words.at[24];
    const idx t2_2 = (idx)words.at[25];
    const idx t2_3 = (idx)words.at[26];
    const idx s2_0 = (idx)words.at[27];
    const idx s2_1 = (idx)words.at[28];
    TL_GLOBAL const u8 *const p3 = (TL_GLOBAL const u8 *)((TL_GLOBAL const char *)b3 + words.at[29]);
    const idx t3_0 = (idx)words.at[30];
    const idx t3_1 = (idx)words.at[31];
    const idx t3_2 = (idx)words.at[32];
    const idx t3_3 = (idx)words.at[33];
    const idx s3_0 = (idx)words.at[34];
    const idx s3_1 = (idx)words.at[35];
    TL_GLOBAL u16 *const p4 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b4 + words.at[36]);
    const idx t4_0 = (idx)words.at[37];
    const idx t4_1 = (idx)words.at[38];
    const idx t4_2 = (idx)words.at[39];
    const idx t4_3 = (idx)words.at[40];
    const u64 c0 = (u64)words.at[41];
    const idx queries = height, keys = total, depth = e1;
    const idx q_row = t0_2, q_step = 1;
    const idx k_row = s1_0, k_step = 1;
    const idx v_row = s2_0, v_step = 1;
    const idx mask_row = t3_2, mask_step = s3_0;
    const idx out_row = t4_2, out_step = 1;
    const tl_sum hidden = tl_f32_of_bits(0xff800000u);
    const tl_sum scale = tl_f32_of_bits(c0);
    const idx strips = (width + TL_COLUMNS - 1) / TL_COLUMNS;
    tl_vector packed[TL_DEPTH * TL_COLUMNS / TL_LANES];
    tl_vector held[TL_ROWS * TL_KEYS / TL_LANES];
    tl_vector sums[TL_ROWS * TL_COLUMNS / TL_LANES];
    tl_sum left_part[TL_ROWS * TL_DEPTH];
    tl_sum peak[TL_ROWS];
    tl_sum sum[TL_ROWS];
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows * chunks * strips + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows * chunks * strips - from < run ? rows * chunks * strips : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx which = unit / strips;
        const idx left = (unit - which * strips) * TL_COLUMNS;
        const idx r = which / chunks;
        const idx top = ((r + 1) * chunks - 1 - which) * length;
        idx row_rest = r;
        const idx r1 = row_rest % o1;
        row_rest /= o1;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0 + r1 * t0_1;
        const idx q1 = r0 * t1_0 + r1 * t1_1;
        const idx q2 = r0 * t2_0 + r1 * t2_1;
        const idx q3 = r0 * t3_0 + r1 * t3_1;
        const idx q4 = r0 * t4_0 + r1 * t4_1;
        TL_GLOBAL const tl_in *const q = p0 + q0;
        TL_GLOBAL const tl_in *const k = p1 + q1;
        TL_GLOBAL const tl_in *const v = p2 + q2;
        TL_GLOBAL const tl_mask *const mask = p3 + q3;
        TL_GLOBAL tl_in *const out = p4 + q4;
        const i32 count = (i32)(queries - top < length ? queries - top : length);
        /* Rows beyond the edge repeat the last one; nobody reads their sums. */
        const i32 whole = (count + TL_AT_ONCE - 1) / TL_AT_ONCE * TL_AT_ONCE;
        const i32 columns = (i32)(width - left < TL_COLUMNS ? width - left : TL_COLUMNS);
        const i32 vectors = (columns + 2 * TL_LANES - 1) / (2 * TL_LANES) * 2;
        const idx end = TL_CAUSAL && keys - top > count ? top + count : keys;
        for (i32 s = 0; s < whole * (TL_COLUMNS / TL_LANES); ++s) sums[s] = 0;
        for (i32 i = 0; i < count; ++i) {
            peak[i] = hidden;
            sum[i] = 0;
        }
        for (idx first = 0; first < end; first += TL_KEYS) {
            const i32 here = (i32)(end - first < TL_KEYS ? end - first : TL_KEYS);
            for (i32 s = 0; s < whole * (TL_KEYS / TL_LANES); ++s) held[s] = 0;
            for (idx from = 0; from < depth; from += TL_DEPTH) {
                const i32 deep = (i32)(depth - from < TL_DEPTH ? depth - from : TL_DEPTH);
                if (first == 0 || depth > TL_DEPTH) {
                    for (i32 i = 0; i < whole; ++i) {
                        TL_GLOBAL const tl_in *const at = q + ((top + (i < count ? i : count - 1)) * q_row + from * q_step);
                        TL_PARALLEL
                        for (i32 l = 0; l < deep; ++l) left_part[i * TL_DEPTH + l] = tl_wide(at[l * q_step]);
                    }
                }
                tl_sum *const keys_here = (tl_sum *)packed;
                for (i32 j = 0; j < TL_KEYS; ++j) {
                    TL_GLOBAL const tl_in *const at = k + ((first + (j < here ? j : here - 1)) * k_row + from * k_step);
                    TL_PARALLEL
                    for (i32 l = 0; l < deep; ++l) keys_here[l * TL_KEYS + j] = tl_wide(at[l * k_step]);
                }
                tl_multiply(left_part, TL_DEPTH, packed, TL_KEYS / TL_LANES, held, TL_KEYS / TL_LANES, whole, deep,
                            TL_KEYS / TL_LANES);
            }
            for (i32 i = 0; i < count; ++i) {
                tl_sum *const row = (tl_sum *)&held[i * (TL_KEYS / TL_LANES)];
                TL_GLOBAL const tl_mask *const at = mask + ((top + i) * mask_row + first * mask_step);
                const idx ahead = top + i + 1 - first;
                const i32 seen = !TL_CAUSAL || ahead > here ? here : ahead > 0 ? (i32)ahead : 0;
                TL_PARALLEL
                for (i32 j = 0; j < seen; ++j) row[j] = tl_masked(row[j] * scale, at + j * mask_step);
                for (i32 j = seen; j < TL_KEYS; ++j) row[j] = hidden;
                /* A NaN is passed over here, and makes the sum NaN. */
                tl_sum part[TL_LANES];
                for (i32 l = 0; l < TL_LANES; ++l) part[l] = hidden;
                for (i32 j = 0; j < TL_KEYS; j += TL_LANES) {
                    TL_PARALLEL
                    for (i32 l = 0; l < TL_LANES; ++l) part[l] = row[j + l] > part[l] ? row[j + l] : part[l];
                }
                const tl_sum before = peak[i];
                tl_sum high = before;
                for (i32 l = 0; l < TL_LANES; ++l) high = part[l] > high ? part[l] : high;
                const tl_sum base = high > hidden ? high : 0;
                for (i32 l = 0; l < TL_LANES; ++l) part[l] = 0;
                TL_PARALLEL
                for (i32 j = 0; j < TL_KEYS; ++j) row[j] = tl_power(row[j] - base);
                for (i32 j = 0; j < TL_KEYS; j += TL_LANES) {
                    TL_PARALLEL
                    for (i32 l = 0; l < TL_LANES; ++l) part[l] += row[j + l];
                }
                tl_sum all = 0;
                for (i32 l = 0; l < TL_LANES; ++l) all += part[l];
                /* Nothing was summed as long as the peak was -inf, but for NaN. */
                const tl_sum by = before > hidden ? tl_power(before - high) : 1;
                peak[i] = high;
                sum[i] = sum[i] * by + all;
                for (i32 v = 0; v < vectors; ++v) sums[i * (TL_COLUMNS / TL_LANES) + v] *= by;
            }
            tl_sum *const values_here = (tl_sum *)packed;
            for (i32 j = 0; j < here; ++j) {
                TL_GLOBAL const tl_in *const at = v + ((first + j) * v_row + left * v_step);
                TL_PARALLEL
                for (i32 e = 0; e < columns; ++e) values_here[j * TL_COLUMNS + e] = tl_wide(at[e * v_step]);
                for (i32 e = columns; e < vectors * TL_LANES; ++e) values_here[j * TL_COLUMNS + e] = 0;
            }
            tl_multiply((const tl_sum *)held, TL_KEYS, packed, TL_COLUMNS / TL_LANES, sums, TL_COLUMNS / TL_LANES, whole,
                        here, vectors);
        }
        for (i32 i = 0; i < count; ++i) {
            const tl_sum *const row = (const tl_sum *)&sums[i * (TL_COLUMNS / TL_LANES)];
            TL_GLOBAL tl_in *const to = out + ((top + i) * out_row + left * out_step);
            const tl_sum all = sum[i];
            TL_PARALLEL
            for (i32 e = 0; e < columns; ++e) to[e * out_step] = tl_narrow(all == 0 ? 0 : row[e] / all);
        }
    }
}
