    /* One more column, so that accesses down a column hit different banks. */
    TL_LOCAL tl_sum held[TL_ROWS * (TL_KEYS + 1)];
    TL_LOCAL tl_sum across[TL_LEFT];
    TL_LOCAL tl_sum down[TL_RIGHT];
    TL_LOCAL tl_sum peak[TL_ROWS];
    TL_LOCAL tl_sum sum[TL_ROWS];
    TL_LOCAL tl_sum factor[TL_ROWS];
    const i32 x = TL_ITEM % TL_ACROSS, y = TL_ITEM / TL_ACROSS;
    /* The row of weights that the work-item has a share in. */
    const i32 own = TL_ITEM / TL_SHARE, lane = TL_ITEM % TL_SHARE;
