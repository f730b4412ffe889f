        TL_GLOBAL u32 *const own = counts + unit * chunks;
        u32 sum = 0;
        for (idx base = 0; base < chunks; base += TL_ITEMS) {
            const idx k = base + TL_ITEM;
            u32 all;
            const u32 before = tl_before(sums, k < chunks ? own[k] : 0, &all);
            if (k < chunks) own[k] = sum + before;
            sum += all;
        }
        if (TL_ITEM == 0) totals[unit] = sum;
