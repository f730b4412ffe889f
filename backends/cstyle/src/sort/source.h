        const idx begin = piece * length;
        const idx end = total - begin < length ? total : begin + length;
        /* Elements go from x to scratch memory, to the output and back in turns, and end in the output. */
        const bool odd = (round & 1) != 0;
        TL_GLOBAL const tl_bits *const from = round == 0 ? p0 + q0 : odd ? elements + r * total : p1 + q1;
        const idx from_step = round == 0 ? x_step : odd ? 1 : value_step;
