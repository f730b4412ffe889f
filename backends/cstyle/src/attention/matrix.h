        const idx end = TL_CAUSAL && keys - top > TL_ROWS ? top + TL_ROWS : keys;
        const idx first_row = top + TL_ITEM / 32 * (16 * TL_BANDS) + lane / 4;
        const auto stage_keys = [&](const i32 stage, const idx first) {
            tl_stage<TL_K_COPIES, TL_DEPTH, TL_K_PITCH>(staged + stage * (TL_KEYS * TL_K_PITCH), k, k_row, k_step, first, end, 0, depth);
        };
        const auto stage_values = [&](const i32 stage, const idx first) {
            tl_in *const to = staged_values + stage * (TL_KEYS * TL_V_PITCH);
            tl_stage<TL_V_COPIES, TL_COLUMNS, TL_V_PITCH>(to, v, v_row, v_step, first, end, left, width);
        };
        stage_keys(0, 0);
        if (TL_STAGES > 1) stage_values(0, 0);
        tl_copies_commit();
        u32 fragments[TL_BANDS][TL_DEPTH / TL_CHUNK / 2][4];
        TL_UNROLL
        for (i32 b = 0; b < TL_BANDS; ++b) {
            TL_UNROLL
            for (i32 l = 0; l < TL_DEPTH / TL_CHUNK / 2; ++l) {
                TL_UNROLL
                for (i32 w = 0; w < 4; ++w) {
                    const idx i = first_row + b * 16 + w % 2 * 8;
                    u32 word = 0;
                    TL_UNROLL
                    for (i32 h = 0; h < TL_CHUNK / 4; ++h) {
                        const idx e = (l * 2 + w / 2) * TL_CHUNK + lane % 4 * (TL_CHUNK / 4) + h;
                        tl_in element = 0;
                        if (i < queries && e < depth) element = tl_narrow(tl_wide(q[i * q_row + e * q_step]) * sign);
                        word |= tl_word(element) << h * 16;
                    }
                    fragments[b][l][w] = word;
                }
            }
        }
        f32 sums[TL_BANDS][TL_COLUMNS / 8][4], peak[TL_BANDS][2], all[TL_BANDS][2];
        TL_UNROLL
        for (i32 b = 0; b < TL_BANDS; ++b) {
            TL_UNROLL
            for (i32 c = 0; c < TL_COLUMNS / 8; ++c) {
                TL_UNROLL
                for (i32 w = 0; w < 4; ++w) sums[b][c][w] = 0;
            }
            TL_UNROLL
            for (i32 h = 0; h < 2; ++h) peak[b][h] = hidden, all[b][h] = 0;
        }
        i32 stage = 0;
        for (idx first = 0; first < end; first += TL_KEYS) {
            const idx next = first + TL_KEYS;
            const tl_in *const keys_of = staged + stage * (TL_KEYS * TL_K_PITCH) + own_keys;
            const tl_in *const values_of = staged_values + stage * (TL_KEYS * TL_V_PITCH);
            stage = TL_STAGES - 1 - stage;
            tl_copies_wait<0>();
            TL_BARRIER;
            if (TL_STAGES == 1) stage_values(0, first);
            else if (next < end) stage_keys(stage, next), stage_values(stage, next);
            tl_copies_commit();
            f32 scores[TL_BANDS][TL_KEYS / 8][4];
            TL_UNROLL
            for (i32 b = 0; b < TL_BANDS; ++b) {
                TL_UNROLL
                for (i32 c = 0; c < TL_KEYS / 8; ++c) {
                    TL_UNROLL
                    for (i32 w = 0; w < 4; ++w) scores[b][c][w] = 0;
                }
            }
            TL_UNROLL
            for (i32 l = 0; l < TL_DEPTH / TL_CHUNK / 2; ++l) {
                tl_parts<4> own[TL_BANDS];
                TL_UNROLL
                for (i32 b = 0; b < TL_BANDS; ++b) {
                    u32 words[4];
                    TL_UNROLL
                    for (i32 w = 0; w < 4; ++w) words[w] = TL_ANEW ? tl_anew(fragments[b][l][w]) : fragments[b][l][w];
                    tl_split(own[b], words);
                }
                TL_UNROLL
                for (i32 c = 0; c < TL_KEYS / 16; ++c) {
                    u32 some[4];
                    tl_matrices(some, keys_of + c * 16 * TL_K_PITCH + l * 2 * TL_CHUNK);
                    TL_UNROLL
                    for (i32 h = 0; h < 2; ++h) {
                        const u32 words[2] = {some[2 * h], some[2 * h + 1]};
                        tl_parts<2> right;
                        tl_split(right, words);
                        TL_UNROLL
                        for (i32 b = 0; b < TL_BANDS; ++b) tl_multiply(scores[b][2 * c + h], own[b], right);
                    }
                }
            }
            if (TL_STAGES == 1) {
                tl_copies_wait<0>();
                TL_BARRIER;
                if (next < end) stage_keys(0, next);
                tl_copies_commit();
            }
            if (TL_MASKED || next > keys || (TL_CAUSAL && next > first_row - lane / 4 + 1)) {
                TL_UNROLL
                for (i32 b = 0; b < TL_BANDS; ++b) {
                    TL_UNROLL
                    for (i32 c = 0; c < TL_KEYS / 8; ++c) {
                        TL_UNROLL
                        for (i32 w = 0; w < 4; ++w) {
                            const idx i = first_row + b * 16 + w / 2 * 8, j = first + c * 8 + lane % 4 * 2 + w % 2;
                            const bool seen = j < keys && (!TL_CAUSAL || j <= i) && (!TL_MASKED || i < queries);
                            const f32 score = TL_ADDED ? scores[b][c][w] * size : scores[b][c][w];
                            scores[b][c][w] = hidden;
                            if (seen) scores[b][c][w] = tl_masked(score, mask + (i * mask_row + j * mask_step));
                        }
                    }
                }
            }
            f32 factor[TL_BANDS][2];
            TL_UNROLL
            for (i32 b = 0; b < TL_BANDS; ++b) {
                TL_UNROLL
                for (i32 h = 0; h < 2; ++h) {
                    /* A NaN is passed over here, and makes the sum NaN. */
                    f32 high = hidden;
                    TL_UNROLL
                    for (i32 c = 0; c < TL_KEYS / 8; ++c) high = fmaxf(high, fmaxf(scores[b][c][2 * h], scores[b][c][2 * h + 1]));
                    high = fmaxf(high, TL_TURN(f32, high, 1));
                    high = fmaxf(high, TL_TURN(f32, high, 2));
                    const f32 before = peak[b][h];
                    high = fmaxf(before, high * steep);
                    const f32 base = high > hidden ? -high : 0;
                    f32 part = 0;
                    TL_UNROLL
                    for (i32 c = 0; c < TL_KEYS / 8; ++c) {
                        TL_UNROLL
                        for (i32 w = 2 * h; w < 2 * h + 2; ++w) {
                            scores[b][c][w] = tl_power_of_two(tl_fma_f32(scores[b][c][w], steep, base));
                            part += scores[b][c][w];
                        }
                    }
                    /* Nothing was summed as long as the peak was -inf, but for NaN. */
                    factor[b][h] = before > hidden ? tl_power_of_two(before - high) : 1;
                    all[b][h] = tl_fma_f32(all[b][h], factor[b][h], part);
                    peak[b][h] = high;
                }
            }
            tl_weigh(sums, scores, factor, values_of);
        }
        TL_UNROLL
        for (i32 b = 0; b < TL_BANDS; ++b) {
            TL_UNROLL
            for (i32 h = 0; h < 2; ++h) {
                const idx i = first_row + b * 16 + h * 8;
                f32 total = all[b][h];
                total += TL_TURN(f32, total, 1);
                total += TL_TURN(f32, total, 2);
                TL_UNROLL
                for (i32 c = 0; c < TL_COLUMNS / 8; ++c) {
                    TL_UNROLL
                    for (i32 w = 0; w < 2; ++w) {
                        const idx e = left + c * 8 + lane % 4 * 2 + w;
                        const f32 value = total == 0 ? 0 : sums[b][c][2 * h + w] / total;
                        if (i < queries && e < width) {
                            out[i * out_row + e * out_step] = tl_narrow(value);
                            odd = odd || !(tl_abs_f32(value) <= TL_LARGEST);
                        }
                    }
                }
            }
        }
        tl_copies_wait<0>();
        TL_BARRIER;
