    tl_bits held[TL_SHORT];
    tl_order key[2 * TL_SHORT];
    u16 number[2 * TL_SHORT];
