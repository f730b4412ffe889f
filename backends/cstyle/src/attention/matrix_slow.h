        /* As it is defined, a query of each warp after the other. */
        const idx end = TL_CAUSAL && keys - top > TL_ROWS ? top + TL_ROWS : keys;
        const auto score = [&](const idx i, const idx j) {
            f32 sum = 0;
            if (TL_CAUSAL && j > i) return hidden;
            for (idx e = 0; e < depth; ++e) sum = tl_fma_f32(q[i * q_row + e * q_step], k[j * k_row + e * k_step], sum);
            return tl_masked(sum * scale, mask + (i * mask_row + j * mask_step));
        };
        for (idx i = top + TL_ITEM / 32; i < queries && i < top + TL_ROWS; i += TL_ITEMS / 32) {
            f32 high = hidden;
            for (idx j = lane; j < end; j += 32) {
                const f32 own = score(i, j);
                high = own > high ? own : high;
            }
            for (i32 with = 16; with > 0; with /= 2) high = fmaxf(high, TL_TURN(f32, high, with));
            const f32 base = high > hidden ? high : 0;
            f32 total = 0, sums[(TL_COLUMNS + 31) / 32] = {0};
            for (idx first = 0; first < end; first += 32) {
                const f32 own = first + lane < end ? tl_power(score(i, first + lane) - base) : 0;
                total += own;
                for (i32 of = 0; of < 32 && first + of < end; ++of) {
                    const f32 weight = TL_OF(f32, own, of);
                    TL_UNROLL
                    for (i32 c = 0; c < (TL_COLUMNS + 31) / 32; ++c) {
                        const idx e = left + c * 32 + lane;
                        if (e < width) sums[c] = tl_fma_f32(weight, v[(first + of) * v_row + e * v_step], sums[c]);
                    }
                }
            }
            for (i32 with = 16; with > 0; with /= 2) total += TL_TURN(f32, total, with);
            TL_UNROLL
            for (i32 c = 0; c < (TL_COLUMNS + 31) / 32; ++c) {
                const idx e = left + c * 32 + lane;
                if (e < width) out[i * out_row + e * out_step] = total == 0 ? 0 : sums[c] / total;
            }
        }
