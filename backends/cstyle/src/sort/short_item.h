        const i32 n = (i32)total, run = 16;
        for (i32 i = 0; i < n; ++i) {
            held[i] = p0[q0 + (idx)i * x_step];
            key[i] = tl_key(held[i], flip);
            number[i] = (u16)i;
        }
        /* Runs by insertion, which are then merged. */
        for (i32 begin = 0; begin < n; begin += run) {
            const i32 end = begin + run < n ? begin + run : n;
            for (i32 i = begin + 1; i < end; ++i) {
                const tl_order own = key[i];
                const u16 from = number[i];
                i32 at = i;
                for (; at > begin && key[at - 1] > own; --at) {
                    key[at] = key[at - 1];
                    number[at] = number[at - 1];
                }
                key[at] = own;
                number[at] = from;
            }
        }
        i32 from = 0;
        for (i32 width = run; width < n; width *= 2) {
            const i32 to = TL_SHORT - from;
            for (i32 begin = 0; begin < n; begin += 2 * width) {
                const i32 middle = begin + width < n ? begin + width : n;
                const i32 end = begin + 2 * width < n ? begin + 2 * width : n;
                i32 left = begin, right = middle;
                for (i32 i = begin; i < end; ++i) {
                    const bool second = left == middle || (right < end && key[from + right] < key[from + left]);
                    const i32 at = from + (second ? right : left);
                    key[to + i] = key[at];
                    number[to + i] = number[at];
                    left += second ? 0 : 1;
                    right += second ? 1 : 0;
                }
            }
            from = to;
        }
        for (i32 i = 0; i < n; ++i) {
            const u16 at = number[from + i];
            p1[q1 + (idx)i * value_step] = held[at];
            p2[q2 + (idx)i * index_step] = (i64)at;
        }
