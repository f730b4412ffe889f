        for (i32 d = 0; d < TL_DIGITS; ++d) count[d] = counts[(r * TL_DIGITS + d) * chunks + piece];
        for (idx i = begin; i < end; ++i) {
            const tl_bits bits = from[i * from_step];
            const idx to = (idx)count[tl_digit(bits, flip, round)]++;
            if (odd) {
                p1[q1 + to * value_step] = bits;
                p2[q2 + to * index_step] = (i64)numbers[r * total + i];
            } else {
                elements[r * total + to] = bits;
                numbers[r * total + to] = round == 0 ? (u32)i : (u32)p2[q2 + i * index_step];
            }
        }
