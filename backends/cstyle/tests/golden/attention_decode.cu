/* attention */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[42]; } tl_words;
typedef f32 tl_in;
typedef f32 tl_sum;
typedef f32 tl_mask;
enum { TL_CAUSAL = 0, TL_ROWS = 16, TL_COLUMNS = 128, TL_KEYS = 64, TL_DEPTH = 16, TL_Q_ALONG = 1, TL_K_ALONG = 1, TL_V_ALONG = 1, TL_ACROSS = 16, TL_DOWN = 16, TL_SHARE = 16, TL_OWN_ROWS = 1, TL_OWN_KEYS = 4, TL_OWN_COLUMNS = 8, TL_LEFT = 512, TL_RIGHT = 2064 };
TL_FN tl_sum tl_wide(const tl_in element) { return element; }
TL_FN tl_in tl_narrow(const tl_sum value) { return value; }
TL_FN tl_sum tl_masked(const tl_sum score, TL_GLOBAL const tl_mask *const at) { return score + *at; }
TL_FN tl_sum tl_power(const tl_sum value) { return tl_exp_f32(value); }
TL_FN tl_sum tl_add_product(const tl_sum a, const tl_sum b, const tl_sum c) { return tl_fma_f32(a, b, c); }
TL_KERNEL void __launch_bounds__(256) tl_attention_0(TL_GLOBAL const f32 * TL_RESTRICT b0, TL_GLOBAL const f32 * TL_RESTRICT b1, TL_GLOBAL const f32 * TL_RESTRICT b2, TL_GLOBAL const f32 * TL_RESTRICT b3, TL_GLOBAL f32 * TL_RESTRICT b4, const __grid_constant__ tl_words words) {
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
    TL_GLOBAL const f32 *const p0 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b0 + words.at[10]);
    const idx t0_0 = (idx)words.at[11];
    const idx t0_1 = (idx)words.at[12];
    const idx t0_2 = (idx)words.at[13];
    const idx t0_3 = (idx)words.at[14];
    const idx s0_0 = (idx)words.at[15];
    TL_GLOBAL const f32 *const p1 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b1 + words.at[16]);
    const idx t1_0 = (idx)words.at[17];
    const idx t1_1 = (idx)words.at[18];
    const idx t1_2 = (idx)words.at[19];
    const idx t1_3 = (idx)words.at[20];
    const idx s1_0 = (idx)words.at[21];
    TL_GLOBAL const f32 *const p2 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b2 + words.at[22]);
    const idx t2_0 = (idx)words.at[23];
    const idx t2_1 = (idx)words.at[24];
    const idx t2_2 = (idx)words.at[25];
    const idx t2_3 = (idx)words.at[26];
    const idx s2_0 = (idx)words.at[27];
    const idx s2_1 = (idx)words.at[28];
    TL_GLOBAL const f32 *const p3 = (TL_GLOBAL const f32 *)((TL_GLOBAL const char *)b3 + words.at[29]);
    const idx t3_0 = (idx)words.at[30];
    const idx t3_1 = (idx)words.at[31];
    const idx t3_2 = (idx)words.at[32];
    const idx t3_3 = (idx)words.at[33];
    const idx s3_0 = (idx)words.at[34];
    const idx s3_1 = (idx)words.at[35];
    TL_GLOBAL f32 *const p4 = (TL_GLOBAL f32 *)((TL_GLOBAL char *)b4 + words.at[36]);
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
    /* One more column, so that accesses down a column hit different banks. */
    TL_LOCAL tl_sum held[TL_ROWS * (TL_KEYS + 1)];
    TL_LOCAL tl_sum across[TL_LEFT];
    TL_LOCAL tl_sum down[TL_RIGHT];
    TL_LOCAL tl_sum peak[TL_ROWS];
    TL_LOCAL tl_sum sum[TL_ROWS];
    TL_LOCAL tl_sum factor[TL_ROWS];
    const i32 x = TL_ITEM % TL_ACROSS, y = TL_ITEM / TL_ACROSS;
    /* The row of weights that the work-item has a share in. */
    const i32 own = TL_ITEM / TL_SHARE, lane = TL_ITEM % TL_SHARE;
    for (idx unit = (idx)TL_GROUP; unit < rows * chunks * strips; unit += (idx)TL_GROUPS) {
        const idx which = unit / strips;
        const idx left = (unit - which * strips) * TL_COLUMNS;
        const idx r = which / chunks;
        const idx top = (which - r * chunks) * length;
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
        const idx end = TL_CAUSAL && keys - top > TL_ROWS ? top + TL_ROWS : keys;
        tl_sum sums[TL_OWN_ROWS][TL_OWN_COLUMNS];
        TL_UNROLL
        for (i32 r = 0; r < TL_OWN_ROWS; ++r) {
            TL_UNROLL
            for (i32 c = 0; c < TL_OWN_COLUMNS; ++c) sums[r][c] = 0;
        }
        for (i32 i = TL_ITEM; i < TL_ROWS; i += TL_ITEMS) {
            peak[i] = hidden;
            sum[i] = 0;
        }
        TL_BARRIER;
        for (idx first = 0; first < end; first += TL_KEYS) {
            tl_sum scores[TL_OWN_ROWS][TL_OWN_KEYS];
            TL_UNROLL
            for (i32 r = 0; r < TL_OWN_ROWS; ++r) {
                TL_UNROLL
                for (i32 c = 0; c < TL_OWN_KEYS; ++c) scores[r][c] = 0;
            }
            for (idx from = 0; from < depth; from += TL_DEPTH) {
                for (i32 s = TL_ITEM; s < TL_ROWS * TL_DEPTH; s += TL_ITEMS) {
                    const i32 i = TL_Q_ALONG ? s / TL_DEPTH : s % TL_ROWS, l = TL_Q_ALONG ? s % TL_DEPTH : s / TL_ROWS;
                    const bool inside = top + i < queries && from + l < depth;
                    across[l * (TL_ROWS + 1) + i] = inside ? tl_wide(q[(top + i) * q_row + (from + l) * q_step]) : 0;
                }
                for (i32 s = TL_ITEM; s < TL_KEYS * TL_DEPTH; s += TL_ITEMS) {
                    const i32 j = TL_K_ALONG ? s / TL_DEPTH : s % TL_KEYS, l = TL_K_ALONG ? s % TL_DEPTH : s / TL_KEYS;
                    const bool inside = first + j < keys && from + l < depth;
                    down[l * (TL_KEYS + 1) + j] = inside ? tl_wide(k[(first + j) * k_row + (from + l) * k_step]) : 0;
                }
                TL_BARRIER;
                TL_UNROLL
                for (i32 l = 0; l < TL_DEPTH; ++l) {
                    tl_sum a[TL_OWN_ROWS], b[TL_OWN_KEYS];
                    TL_UNROLL
                    for (i32 r = 0; r < TL_OWN_ROWS; ++r) a[r] = across[l * (TL_ROWS + 1) + y + r * TL_DOWN];
                    TL_UNROLL
                    for (i32 c = 0; c < TL_OWN_KEYS; ++c) b[c] = down[l * (TL_KEYS + 1) + x + c * TL_ACROSS];
                    TL_UNROLL
                    for (i32 r = 0; r < TL_OWN_ROWS; ++r) {
                        TL_UNROLL
                        for (i32 c = 0; c < TL_OWN_KEYS; ++c) scores[r][c] = tl_add_product(a[r], b[c], scores[r][c]);
                    }
                }
                TL_BARRIER;
            }
            TL_UNROLL
            for (i32 r = 0; r < TL_OWN_ROWS; ++r) {
                TL_UNROLL
                for (i32 c = 0; c < TL_OWN_KEYS; ++c) {
                    const i32 at = x + c * TL_ACROSS;
                    const idx i = top + y + r * TL_DOWN, j = first + at;
                    const bool seen = i < queries && j < keys && (!TL_CAUSAL || j <= i);
                    tl_sum score = hidden;
                    if (seen) score = tl_masked(scores[r][c] * scale, mask + (i * mask_row + j * mask_step));
                    held[(y + r * TL_DOWN) * (TL_KEYS + 1) + at] = score;
                }
            }
            TL_BARRIER;
            /* A NaN is passed over here, and makes the sum NaN. */
            tl_sum high = hidden;
            for (i32 j = lane; j < TL_KEYS; j += TL_SHARE) {
                const tl_sum score = held[own * (TL_KEYS + 1) + j];
                high = score > high ? score : high;
            }
            across[TL_ITEM] = high;
            TL_BARRIER;
            const tl_sum before = peak[own];
            high = before;
            for (i32 t = 0; t < TL_SHARE; ++t) {
                const tl_sum other = across[own * TL_SHARE + t];
                high = other > high ? other : high;
            }
            const tl_sum base = high > hidden ? high : 0;
            tl_sum part = 0;
            for (i32 j = lane; j < TL_KEYS; j += TL_SHARE) {
                const tl_sum weight = tl_power(held[own * (TL_KEYS + 1) + j] - base);
                held[own * (TL_KEYS + 1) + j] = weight;
                part += weight;
            }
            across[TL_ITEMS + TL_ITEM] = part;
            TL_BARRIER;
            if (lane == 0) {
                tl_sum all = 0;
                for (i32 t = 0; t < TL_SHARE; ++t) all += across[TL_ITEMS + own * TL_SHARE + t];
                /* Nothing was summed as long as the peak was -inf, but for NaN. */
                const tl_sum by = before > hidden ? tl_power(before - high) : 1;
                factor[own] = by;
                peak[own] = high;
                sum[own] = sum[own] * by + all;
            }
            for (i32 some = 0; some < TL_KEYS; some += TL_DEPTH) {
                for (i32 s = TL_ITEM; s < TL_DEPTH * TL_COLUMNS; s += TL_ITEMS) {
                    const i32 e = TL_V_ALONG ? s % TL_COLUMNS : s / TL_DEPTH, l = TL_V_ALONG ? s / TL_COLUMNS : s % TL_DEPTH;
                    const idx j = first + some + l;
                    const bool inside = j < end && left + e < width;
                    down[l * (TL_COLUMNS + 1) + e] = inside ? tl_wide(v[j * v_row + (left + e) * v_step]) : 0;
                }
                TL_BARRIER;
                TL_UNROLL
                for (i32 r = 0; r < TL_OWN_ROWS; ++r) {
                    const tl_sum by = some == 0 ? factor[y + r * TL_DOWN] : 1;
                    TL_UNROLL
                    for (i32 c = 0; c < TL_OWN_COLUMNS; ++c) sums[r][c] *= by;
                }
                TL_UNROLL
                for (i32 l = 0; l < TL_DEPTH; ++l) {
                    tl_sum a[TL_OWN_ROWS], b[TL_OWN_COLUMNS];
                    TL_UNROLL
                    for (i32 r = 0; r < TL_OWN_ROWS; ++r) a[r] = held[(y + r * TL_DOWN) * (TL_KEYS + 1) + some + l];
                    TL_UNROLL
                    for (i32 c = 0; c < TL_OWN_COLUMNS; ++c) b[c] = down[l * (TL_COLUMNS + 1) + x + c * TL_ACROSS];
                    TL_UNROLL
                    for (i32 r = 0; r < TL_OWN_ROWS; ++r) {
                        TL_UNROLL
                        for (i32 c = 0; c < TL_OWN_COLUMNS; ++c) sums[r][c] = tl_add_product(a[r], b[c], sums[r][c]);
                    }
                }
                TL_BARRIER;
            }
        }
        TL_UNROLL
        for (i32 r = 0; r < TL_OWN_ROWS; ++r) {
            const idx i = top + y + r * TL_DOWN;
            const tl_sum all = sum[y + r * TL_DOWN];
            TL_UNROLL
            for (i32 c = 0; c < TL_OWN_COLUMNS; ++c) {
                const idx e = left + x + c * TL_ACROSS;
                const tl_sum value = all == 0 ? 0 : sums[r][c] / all;
                if (i < queries && e < width) out[i * out_row + e * out_step] = tl_narrow(value);
            }
        }
        TL_BARRIER;
    }
}
