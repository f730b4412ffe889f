        for (i32 d = 0; d < TL_DIGITS; ++d) count[d] = 0;
        for (idx i = begin; i < end; ++i) ++count[tl_digit(from[i * from_step], flip, round)];
        for (i32 d = 0; d < TL_DIGITS; ++d) counts[(r * TL_DIGITS + d) * chunks + piece] = count[d];
