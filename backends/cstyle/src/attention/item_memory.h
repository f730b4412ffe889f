    tl_vector packed[TL_DEPTH * TL_COLUMNS / TL_LANES];
    tl_vector held[TL_ROWS * TL_KEYS / TL_LANES];
    tl_vector sums[TL_ROWS * TL_COLUMNS / TL_LANES];
    tl_sum left_part[TL_ROWS * TL_DEPTH];
    tl_sum peak[TL_ROWS];
    tl_sum sum[TL_ROWS];
