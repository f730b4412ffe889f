/* sort */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[20]; } tl_words;
typedef u16 tl_bits;
typedef u32 tl_order;
enum { TL_SHORT = 256, TL_SHARE = 256, TL_OWN = 16, TL_FEW = 16, TL_TILE = 16, TL_DIGIT = 8, TL_DIGITS = 256 };
/* Orders elements: both zeros are one key, and NaN is the last in either direction. */
TL_FN tl_order tl_key(const tl_order bits, const tl_order flip) {
    const tl_order size = bits & 0x7fffu;
    const tl_order up = size == 0 ? 0x8000u : bits & 0x8000u ? ~bits & 0xffffu : bits | 0x8000u;
    return size > 0x7c00u ? 0xffffu : up ^ flip;
}
TL_FN i32 tl_digit(const tl_order bits, const tl_order flip, const i32 round) {
    return (i32)((tl_key(bits, flip) >> (round * TL_DIGIT)) & (TL_DIGITS - 1));
}
TL_KERNEL void tl_sort_0(TL_GLOBAL const u16 * b0, TL_GLOBAL u16 * b1, TL_GLOBAL i64 * b2, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const tl_order flip = (tl_order)words.at[4];
    TL_GLOBAL u32 *const totals = (TL_GLOBAL u32 *)(scratch + words.at[5]);
    TL_GLOBAL u32 *const counts = (TL_GLOBAL u32 *)(scratch + words.at[6]);
    TL_GLOBAL u32 *const numbers = (TL_GLOBAL u32 *)(scratch + words.at[7]);
    TL_GLOBAL tl_bits *const elements = (TL_GLOBAL tl_bits *)(scratch + words.at[8]);
    const idx o1 = (idx)words.at[9];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[10]);
    const idx t0_0 = (idx)words.at[11];
    const idx t0_1 = (idx)words.at[12];
    TL_GLOBAL u16 *const p1 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b1 + words.at[13]);
    const idx t1_0 = (idx)words.at[14];
    const idx t1_1 = (idx)words.at[15];
    TL_GLOBAL i64 *const p2 = (TL_GLOBAL i64 *)((TL_GLOBAL char *)b2 + words.at[16]);
    const idx t2_0 = (idx)words.at[17];
    const idx t2_1 = (idx)words.at[18];
    const i32 round = (i32)words.at[19];
    const idx x_step = t0_1;
    const idx value_step = t1_1;
    const idx index_step = t2_1;
    u32 count[TL_DIGITS];
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows * chunks + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows * chunks - from < run ? rows * chunks : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit / chunks;
        const idx piece = unit - r * chunks;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        const idx begin = piece * length;
        const idx end = total - begin < length ? total : begin + length;
        /* Elements go from x to scratch memory, to the output and back in turns, and end in the output. */
        const bool odd = (round & 1) != 0;
        TL_GLOBAL const tl_bits *const from = round == 0 ? p0 + q0 : odd ? elements + r * total : p1 + q1;
        const idx from_step = round == 0 ? x_step : odd ? 1 : value_step;
        for (i32 d = 0; d < TL_DIGITS; ++d) count[d] = 0;
        for (idx i = begin; i < end; ++i) ++count[tl_digit(from[i * from_step], flip, round)];
        for (i32 d = 0; d < TL_DIGITS; ++d) counts[(r * TL_DIGITS + d) * chunks + piece] = count[d];
    }
}
TL_KERNEL void tl_sort_1(TL_GLOBAL const u16 * b0, TL_GLOBAL u16 * b1, TL_GLOBAL i64 * b2, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const tl_order flip = (tl_order)words.at[4];
    TL_GLOBAL u32 *const totals = (TL_GLOBAL u32 *)(scratch + words.at[5]);
    TL_GLOBAL u32 *const counts = (TL_GLOBAL u32 *)(scratch + words.at[6]);
    TL_GLOBAL u32 *const numbers = (TL_GLOBAL u32 *)(scratch + words.at[7]);
    TL_GLOBAL tl_bits *const elements = (TL_GLOBAL tl_bits *)(scratch + words.at[8]);
    const idx o1 = (idx)words.at[9];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[10]);
    const idx t0_0 = (idx)words.at[11];
    const idx t0_1 = (idx)words.at[12];
    TL_GLOBAL u16 *const p1 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b1 + words.at[13]);
    const idx t1_0 = (idx)words.at[14];
    const idx t1_1 = (idx)words.at[15];
    TL_GLOBAL i64 *const p2 = (TL_GLOBAL i64 *)((TL_GLOBAL char *)b2 + words.at[16]);
    const idx t2_0 = (idx)words.at[17];
    const idx t2_1 = (idx)words.at[18];
    const i32 round = (i32)words.at[19];
    const idx x_step = t0_1;
    const idx value_step = t1_1;
    const idx index_step = t2_1;
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows - from < run ? rows : from + run;
    for (idx unit = from; unit < to; ++unit) {
        TL_GLOBAL u32 *const own = counts + unit * TL_DIGITS * chunks;
        u32 sum = 0;
        for (idx k = 0; k < TL_DIGITS * chunks; ++k) {
            const u32 count = own[k];
            own[k] = sum;
            sum += count;
        }
    }
}
TL_KERNEL void tl_sort_2(TL_GLOBAL const u16 * b0, TL_GLOBAL u16 * b1, TL_GLOBAL i64 * b2, TL_GLOBAL char *scratch, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const tl_order flip = (tl_order)words.at[4];
    TL_GLOBAL u32 *const totals = (TL_GLOBAL u32 *)(scratch + words.at[5]);
    TL_GLOBAL u32 *const counts = (TL_GLOBAL u32 *)(scratch + words.at[6]);
    TL_GLOBAL u32 *const numbers = (TL_GLOBAL u32 *)(scratch + words.at[7]);
    TL_GLOBAL tl_bits *const elements = (TL_GLOBAL tl_bits *)(scratch + words.at[8]);
    const idx o1 = (idx)words.at[9];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[10]);
    const idx t0_0 = (idx)words.at[11];
    const idx t0_1 = (idx)words.at[12];
    TL_GLOBAL u16 *const p1 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b1 + words.at[13]);
    const idx t1_0 = (idx)words.at[14];
    const idx t1_1 = (idx)words.at[15];
    TL_GLOBAL i64 *const p2 = (TL_GLOBAL i64 *)((TL_GLOBAL char *)b2 + words.at[16]);
    const idx t2_0 = (idx)words.at[17];
    const idx t2_1 = (idx)words.at[18];
    const i32 round = (i32)words.at[19];
    const idx x_step = t0_1;
    const idx value_step = t1_1;
    const idx index_step = t2_1;
    u32 count[TL_DIGITS];
    const idx groups = (idx)TL_GROUPS;
    const idx run = (rows * chunks + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = rows * chunks - from < run ? rows * chunks : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit / chunks;
        const idx piece = unit - r * chunks;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        const idx q2 = r0 * t2_0;
        const idx begin = piece * length;
        const idx end = total - begin < length ? total : begin + length;
        /* Elements go from x to scratch memory, to the output and back in turns, and end in the output. */
        const bool odd = (round & 1) != 0;
        TL_GLOBAL const tl_bits *const from = round == 0 ? p0 + q0 : odd ? elements + r * total : p1 + q1;
        const idx from_step = round == 0 ? x_step : odd ? 1 : value_step;
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
    }
}
