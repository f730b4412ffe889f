        /* Where the elements of each digit go: after those of lesser digits and of earlier pieces. */
        {
            const i32 share = (TL_DIGITS + TL_ITEMS - 1) / TL_ITEMS;
            u32 own = 0, all;
            for (i32 d = TL_ITEM * share; d < (TL_ITEM + 1) * share && d < TL_DIGITS; ++d) own += totals[r * TL_DIGITS + d];
            u32 before = tl_before(sums, own, &all);
            for (i32 d = TL_ITEM * share; d < (TL_ITEM + 1) * share && d < TL_DIGITS; ++d) {
                first[d] = before + counts[(r * TL_DIGITS + d) * chunks + piece];
                before += totals[r * TL_DIGITS + d];
            }
        }
        for (idx base = begin; base < end; base += TL_TILE) {
            const i32 count = end - base < TL_TILE ? (i32)(end - base) : TL_TILE;
            /* A tile in order of its digits, by four bits and four bits: entries are digits and places in the tile. Gaps keep
             * neighbours out of one bank. */
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                entry[i + i / 16] = (u32)tl_digit(from[(base + i) * from_step], flip, round) << 16 | (u32)i;
            }
            TL_BARRIER;
            for (i32 part = 16; part < 16 + TL_DIGIT; part += 4) {
                u32 own[TL_OWN];
                for (i32 d = 0; d < 16; ++d) {
                    const i32 at = d * TL_ITEMS + TL_ITEM;
                    rank[at + at / 16 * 2] = 0;
                }
                TL_UNROLL
                for (i32 v = 0; v < TL_OWN; ++v) {
                    const i32 i = TL_ITEM * TL_OWN + v;
                    if (i < count) {
                        own[v] = entry[i + i / 16];
                        const i32 at = (i32)(own[v] >> part & 15) * TL_ITEMS + TL_ITEM;
                        ++rank[at + at / 16 * 2];
                    }
                }
                TL_BARRIER;
                u32 sum = 0, all;
                for (i32 k = 0; k < 16; ++k) sum += rank[18 * TL_ITEM + k];
                u32 before = tl_before(sums, sum, &all);
                for (i32 k = 0; k < 16; ++k) {
                    const u32 here = rank[18 * TL_ITEM + k];
                    rank[18 * TL_ITEM + k] = (u16)before;
                    before += here;
                }
                TL_BARRIER;
                TL_UNROLL
                for (i32 v = 0; v < TL_OWN; ++v) {
                    const i32 i = TL_ITEM * TL_OWN + v;
                    if (i < count) {
                        const i32 at = (i32)(own[v] >> part & 15) * TL_ITEMS + TL_ITEM;
                        const i32 to = rank[at + at / 16 * 2]++;
                        entry[to + to / 16] = own[v];
                    }
                }
                TL_BARRIER;
            }
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                const u32 d = entry[i + i / 16] >> 16;
                if (i == 0 || entry[i - 1 + (i - 1) / 16] >> 16 != d) start[d] = (u16)i;
            }
            TL_BARRIER;
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                const u32 own = entry[i + i / 16], d = own >> 16;
                const idx at = base + (idx)(own & 0xffff), to = (idx)(first[d] + (u32)(i - start[d]));
                const tl_bits bits = from[at * from_step];
                if (odd) {
                    p1[q1 + to * value_step] = bits;
                    p2[q2 + to * index_step] = (i64)numbers[r * total + at];
                } else {
                    elements[r * total + to] = bits;
                    numbers[r * total + to] = round == 0 ? (u32)at : (u32)p2[q2 + at * index_step];
                }
            }
            TL_BARRIER;
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                const u32 d = entry[i + i / 16] >> 16;
                if (i + 1 == count || entry[i + 1 + (i + 1) / 16] >> 16 != d) first[d] += (u32)(i + 1 - start[d]);
            }
            TL_BARRIER;
        }
