/* Where an element of a tile in shared memory is. A row has `width` elements, and 16 bytes `pack`. The packs of eight rows, and
 * eight packs of a row, are spread over all banks. */
template <i32 width, i32 pack> TL_FN i32 tl_placed(i32 row, i32 column) {
    const i32 packs = width / pack < 8 ? width / pack : 8;
    const i32 turn = row / (8 / packs) % packs;
    return row * width + (column / pack ^ turn) * pack + column % pack;
}

/* 16 lines of 16 points as the first operand of a product. A tile holds `lines` lines of `depth` points, line by line where it
 * lies along the depth, point by point otherwise. */
template <i32 lines, i32 depth, bool along> TL_FN void tl_left(u32 (&to)[4], const u16 *tile, i32 line, i32 point) {
    const i32 lane = TL_ITEM % 32, low = lane % 8 + lane / 8 % 2 * 8, high = lane / 16 * 8;
    if (along) tl_matrices(to, tile + tl_placed<depth, 8>(line + low, point + high));
    else tl_matrices_turned(to, tile + tl_placed<lines, 8>(point + lane % 8 + high, line + lane / 8 % 2 * 8));
}
/* 16 lines of 16 points as two second operands, of 8 lines each. */
template <i32 lines, i32 depth, bool along> TL_FN void tl_right(u32 (&to)[2][2], const u16 *tile, i32 line, i32 point) {
    const i32 lane = TL_ITEM % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
    u32 four[4];
    if (along) tl_matrices(four, tile + tl_placed<depth, 8>(line + lane % 8 + high, point + low));
    else tl_matrices_turned(four, tile + tl_placed<lines, 8>(point + lane % 8 + low, line + high));
    to[0][0] = four[0], to[0][1] = four[1], to[1][0] = four[2], to[1][1] = four[3];
}
