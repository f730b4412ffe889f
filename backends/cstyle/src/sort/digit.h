TL_FN i32 tl_digit(const tl_order bits, const tl_order flip, const i32 round) {
    return (i32)((tl_key(bits, flip) >> (round * TL_DIGIT)) & (TL_DIGITS - 1));
}
