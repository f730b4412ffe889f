/* sort */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[15]; } tl_words;
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
TL_KERNEL void tl_sort_0(TL_GLOBAL const u16 * b0, TL_GLOBAL u16 * b1, TL_GLOBAL i64 * b2, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    const tl_order flip = (tl_order)words.at[4];
    const idx o1 = (idx)words.at[5];
    TL_GLOBAL const u16 *const p0 = (TL_GLOBAL const u16 *)((TL_GLOBAL const char *)b0 + words.at[6]);
    const idx t0_0 = (idx)words.at[7];
    const idx t0_1 = (idx)words.at[8];
    TL_GLOBAL u16 *const p1 = (TL_GLOBAL u16 *)((TL_GLOBAL char *)b1 + words.at[9]);
    const idx t1_0 = (idx)words.at[10];
    const idx t1_1 = (idx)words.at[11];
    TL_GLOBAL i64 *const p2 = (TL_GLOBAL i64 *)((TL_GLOBAL char *)b2 + words.at[12]);
    const idx t2_0 = (idx)words.at[13];
    const idx t2_1 = (idx)words.at[14];
    const idx x_step = t0_1;
    const idx value_step = t1_1;
    const idx index_step = t2_1;
    tl_bits held[TL_SHORT];
    tl_order key[2 * TL_SHORT];
    u16 number[2 * TL_SHORT];
    const idx groups = (idx)TL_GROUPS;
    const idx run = (chunks + groups - 1) / groups;
    const idx from = (idx)TL_GROUP * run;
    const idx to = chunks - from < run ? chunks : from + run;
    for (idx unit = from; unit < to; ++unit) {
        const idx r = unit;
        idx row_rest = r;
        const idx r0 = row_rest;
        const idx q0 = r0 * t0_0;
        const idx q1 = r0 * t1_0;
        const idx q2 = r0 * t2_0;
        const i32 n = (i32)total, run = 16;
        for (i32 i = 0; i < n; ++i) {
            held[i] = p0[q0 + (idx)i * x_step];
            key[i] = tl_key(held[i], flip);
            number[i] = (u16)i;
        }
        /* Runs by insertion, which are then merged. */
        for (i32 begin = 0; begin < n; begin += run) {
            const i32 end = begin + run < n ? begin + run : n;
            for (i32 i = begin + 1; i < end; ++i) {
                const tl_order own = key[i];
                const u16 from = number[i];
                i32 at = i;
                for (; at > begin && key[at - 1] > own; --at) {
                    key[at] = key[at - 1];
                    number[at] = number[at - 1];
                }
                key[at] = own;
                number[at] = from;
            }
        }
        i32 from = 0;
        for (i32 width = run; width < n; width *= 2) {
            const i32 to = TL_SHORT - from;
            for (i32 begin = 0; begin < n; begin += 2 * width) {
                const i32 middle = begin + width < n ? begin + width : n;
                const i32 end = begin + 2 * width < n ? begin + 2 * width : n;
                i32 left = begin, right = middle;
                for (i32 i = begin; i < end; ++i) {
                    const bool second = left == middle || (right < end && key[from + right] < key[from + left]);
                    const i32 at = from + (second ? right : left);
                    key[to + i] = key[at];
                    number[to + i] = number[at];
                    left += second ? 0 : 1;
                    right += second ? 1 : 0;
                }
            }
            from = to;
        }
        for (i32 i = 0; i < n; ++i) {
            const u16 at = number[from + i];
            p1[q1 + (idx)i * value_step] = held[at];
            p2[q2 + (idx)i * index_step] = (i64)at;
        }
    }
}
