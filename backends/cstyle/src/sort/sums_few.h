    if (chunks <= TL_FEW) {
        const idx items = (idx)TL_GROUPS * TL_ITEMS;
        for (idx unit = (idx)TL_GROUP * TL_ITEMS + TL_ITEM; unit < rows * TL_DIGITS; unit += items) {
            u32 sum = 0;
            for (idx k = unit * chunks; k < (unit + 1) * chunks; ++k) {
                const u32 count = counts[k];
                counts[k] = sum;
                sum += count;
            }
            totals[unit] = sum;
        }
        return;
    }
