/* sort */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[15]; } tl_words;
typedef u16 tl_bits;
typedef u32 tl_order;
enum { TL_SHORT = 2048, TL_SHARE = 8, TL_OWN = 16, TL_FEW = 16, TL_TILE = 4096, TL_DIGIT = 8, TL_DIGITS = 256 };
/* Orders elements: both zeros are one key, and NaN is the last in either direction. */
TL_FN tl_order tl_key(const tl_order bits, const tl_order flip) {
    const tl_order size = bits & 0x7fffu;
    const tl_order up = size == 0 ? 0x8000u : bits & 0x8000u ? ~bits & 0xffffu : bits | 0x8000u;
    return size > 0x7c00u ? 0xffffu : up ^ flip;
}
TL_FN i32 tl_digit(const tl_order bits, const tl_order flip, const i32 round) {
    return (i32)((tl_key(bits, flip) >> (round * TL_DIGIT)) & (TL_DIGITS - 1));
}
#undef TL_SHARED
#define TL_SHARED __local
#undef TL_COUNT
#define TL_COUNT(at) atomic_inc(at)
/* The sum of what the work-items before this one bring, and of what all do. */
TL_FN u32 tl_before(TL_SHARED u32 *const sums, const u32 own, u32 *const all) {
    i32 at = 0;
    sums[TL_ITEM] = own;
    TL_BARRIER;
    for (i32 reach = 1; reach < TL_ITEMS; reach *= 2) {
        const u32 sum = sums[at + TL_ITEM] + (TL_ITEM >= reach ? sums[at + TL_ITEM - reach] : 0);
        at = TL_ITEMS - at;
        sums[at + TL_ITEM] = sum;
        TL_BARRIER;
    }
    const u32 sum = sums[at + TL_ITEM];
    *all = sums[at + TL_ITEMS - 1];
    TL_BARRIER;
    return sum - own;
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
    TL_LOCAL tl_bits held[TL_SHORT];
    TL_LOCAL u16 number[TL_SHORT];
    for (idx unit = (idx)TL_GROUP; unit < chunks; unit += (idx)TL_GROUPS) {
        const i32 n = (i32)total;
        const idx first = unit * length;
        const i32 count = (i32)(rows - first < length ? rows - first : length) * n;
        for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
            const i32 j = i % n;
            const idx r = first + i / n;
            idx row_rest = r;
            const idx r0 = row_rest;
            const idx q0 = r0 * t0_0;
            held[i] = p0[q0 + (idx)j * x_step];
            number[i] = (u16)j;
        }
        TL_BARRIER;
        /* Runs of twice the width: an element's place in a run is its place in its half and that in the other one, where it
         * comes after equal elements of the first half and before those of the second. */
        for (i32 width = 1; width < n; width *= 2) {
            tl_bits own[TL_SHARE];
            u16 from[TL_SHARE];
            u16 to[TL_SHARE];
            TL_UNROLL
            for (i32 v = 0; v < TL_SHARE; ++v) {
                const i32 i = TL_ITEM + v * TL_ITEMS;
                if (i < count) {
                    const i32 j = i % n, row = i - j, begin = j & ~(2 * width - 1);
                    const bool second = (j & width) != 0;
                    const i32 other = second ? begin : begin + width < n ? begin + width : n;
                    i32 low = other, high = other + width < n ? other + width : n;
                    own[v] = held[i];
                    from[v] = number[i];
                    const tl_order key = tl_key(own[v], flip);
                    while (low < high) {
                        const i32 middle = (low + high) / 2;
                        const tl_order there = tl_key(held[row + middle], flip);
                        const bool before = there < key || (second && there == key);
                        low = before ? middle + 1 : low;
                        high = before ? high : middle;
                    }
                    to[v] = (u16)(i - (second ? width : 0) + low - other);
                }
            }
            TL_BARRIER;
            TL_UNROLL
            for (i32 v = 0; v < TL_SHARE; ++v) {
                if (TL_ITEM + v * TL_ITEMS < count) {
                    held[to[v]] = own[v];
                    number[to[v]] = from[v];
                }
            }
            TL_BARRIER;
        }
        for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
            const i32 j = i % n;
            const idx r = first + i / n;
            idx row_rest = r;
            const idx r0 = row_rest;
            const idx q1 = r0 * t1_0;
            const idx q2 = r0 * t2_0;
            p1[q1 + (idx)j * value_step] = held[i];
            p2[q2 + (idx)j * index_step] = (i64)number[i];
        }
        TL_BARRIER;
    }
}
