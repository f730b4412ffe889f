/* Copies a block's rows from `first` on and columns from `left` on into local memory: zeros where `end` and `width` are passed. */
template <int copies, int columns, int pitch>
TL_FN void tl_stage(tl_in *const to, TL_GLOBAL const tl_in *const from, const idx row, const idx step, const idx first, const idx end,
                    const idx left, const idx width) {
    if (copies) {
        TL_UNROLL
        for (i32 s = TL_ITEM; s < TL_KEYS * (columns / TL_CHUNK); s += TL_ITEMS) {
            const i32 j = s / (columns / TL_CHUNK), e = s % (columns / TL_CHUNK) * TL_CHUNK;
            const bool inside = first + j < end && left + e < width;
            tl_copy_16(to + j * pitch + e, from + (inside ? (first + j) * row + left + e : 0), inside);
        }
        return;
    }
    TL_NO_UNROLL
    for (i32 s = TL_ITEM; s < TL_KEYS * columns; s += TL_ITEMS) {
        const i32 j = s / columns, e = s % columns;
        const bool inside = first + j < end && left + e < width;
        to[j * pitch + e] = inside ? from[(first + j) * row + (left + e) * step] : 0;
    }
}
