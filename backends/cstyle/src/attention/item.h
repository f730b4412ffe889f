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
