        TL_GLOBAL u32 *const own = counts + unit * TL_DIGITS * chunks;
        u32 sum = 0;
        for (idx k = 0; k < TL_DIGITS * chunks; ++k) {
            const u32 count = own[k];
            own[k] = sum;
            sum += count;
        }
