        for (i32 d = TL_ITEM; d < TL_DIGITS; d += TL_ITEMS) count[d] = 0;
        TL_BARRIER;
        for (idx i = begin + TL_ITEM; i < end; i += TL_ITEMS) {
            TL_SHARED u32 *const at = count + tl_digit(from[i * from_step], flip, round);
            TL_COUNT(at);
        }
        TL_BARRIER;
        for (i32 d = TL_ITEM; d < TL_DIGITS; d += TL_ITEMS) counts[(r * TL_DIGITS + d) * chunks + piece] = count[d];
