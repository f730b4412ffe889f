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
