        /* Runs of twice the width: an element's place in a run is its place in its half and that in the other one, where it
         * comes after equal elements of the first half and before those of the second. */
        for (i32 width = 1; width < n; width *= 2) {
            tl_bits own[TL_SHARE];
            u16 from[TL_SHARE];
            u16 to[TL_SHARE];
            TL_UNROLL
            for (i32 v = 0; v < TL_SHARE; ++v) {
                const i32 i = TL_ITEM + v * TL_ITEMS;
                if (i < count) {
                    const i32 j = i % n, row = i - j, begin = j & ~(2 * width - 1);
                    const bool second = (j & width) != 0;
                    const i32 other = second ? begin : begin + width < n ? begin + width : n;
                    i32 low = other, high = other + width < n ? other + width : n;
                    own[v] = held[i];
                    from[v] = number[i];
                    const tl_order key = tl_key(own[v], flip);
                    while (low < high) {
                        const i32 middle = (low + high) / 2;
                        const tl_order there = tl_key(held[row + middle], flip);
                        const bool before = there < key || (second && there == key);
                        low = before ? middle + 1 : low;
                        high = before ? high : middle;
                    }
                    to[v] = (u16)(i - (second ? width : 0) + low - other);
                }
            }
            TL_BARRIER;
            TL_UNROLL
            for (i32 v = 0; v < TL_SHARE; ++v) {
                if (TL_ITEM + v * TL_ITEMS < count) {
                    held[to[v]] = own[v];
                    number[to[v]] = from[v];
                }
            }
            TL_BARRIER;
        }
