/* sort */
typedef i32 idx;
enum { TL_ITEMS = 256 };
typedef struct { i64 at[20]; } tl_words;
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
#define TL_SHARED 
#undef TL_COUNT
#define TL_COUNT(at) atomicAdd(at, 1u)
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
TL_KERNEL void __launch_bounds__(256) tl_sort_0(TL_GLOBAL const u16 * b0, TL_GLOBAL u16 * b1, TL_GLOBAL i64 * b2, TL_GLOBAL char *scratch, const __grid_constant__ tl_words words) {
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
    TL_LOCAL u32 count[TL_DIGITS];
    for (idx unit = (idx)TL_GROUP; unit < rows * chunks; unit += (idx)TL_GROUPS) {
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
        for (i32 d = TL_ITEM; d < TL_DIGITS; d += TL_ITEMS) count[d] = 0;
        TL_BARRIER;
        for (idx i = begin + TL_ITEM; i < end; i += TL_ITEMS) {
            TL_SHARED u32 *const at = count + tl_digit(from[i * from_step], flip, round);
            TL_COUNT(at);
        }
        TL_BARRIER;
        for (i32 d = TL_ITEM; d < TL_DIGITS; d += TL_ITEMS) counts[(r * TL_DIGITS + d) * chunks + piece] = count[d];
    }
}
TL_KERNEL void __launch_bounds__(256) tl_sort_1(TL_GLOBAL const u16 * b0, TL_GLOBAL u16 * b1, TL_GLOBAL i64 * b2, TL_GLOBAL char *scratch, const __grid_constant__ tl_words words) {
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
    TL_LOCAL u32 sums[2 * TL_ITEMS];
    if (chunks <= TL_FEW) {
        const idx items = (idx)TL_GROUPS * TL_ITEMS;
        for (idx unit = (idx)TL_GROUP * TL_ITEMS + TL_ITEM; unit < rows * TL_DIGITS; unit += items) {
            u32 sum = 0;
            for (idx k = unit * chunks; k < (unit + 1) * chunks; ++k) {
                const u32 count = counts[k];
                counts[k] = sum;
                sum += count;
            }
            totals[unit] = sum;
        }
        return;
    }
    for (idx unit = (idx)TL_GROUP; unit < rows * TL_DIGITS; unit += (idx)TL_GROUPS) {
        TL_GLOBAL u32 *const own = counts + unit * chunks;
        u32 sum = 0;
        for (idx base = 0; base < chunks; base += TL_ITEMS) {
            const idx k = base + TL_ITEM;
            u32 all;
            const u32 before = tl_before(sums, k < chunks ? own[k] : 0, &all);
            if (k < chunks) own[k] = sum + before;
            sum += all;
        }
        if (TL_ITEM == 0) totals[unit] = sum;
    }
}
TL_KERNEL void __launch_bounds__(256) tl_sort_2(TL_GLOBAL const u16 * b0, TL_GLOBAL u16 * b1, TL_GLOBAL i64 * b2, TL_GLOBAL char *scratch, const __grid_constant__ tl_words words) {
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
    TL_LOCAL u32 entry[TL_TILE + TL_TILE / 16];
    TL_LOCAL u16 rank[18 * TL_ITEMS];
    TL_LOCAL u32 sums[2 * TL_ITEMS];
    TL_LOCAL u32 first[TL_DIGITS];
    TL_LOCAL u16 start[TL_DIGITS];
    for (idx unit = (idx)TL_GROUP; unit < rows * chunks; unit += (idx)TL_GROUPS) {
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
        /* Where the elements of each digit go: after those of lesser digits and of earlier pieces. */
        {
            const i32 share = (TL_DIGITS + TL_ITEMS - 1) / TL_ITEMS;
            u32 own = 0, all;
            for (i32 d = TL_ITEM * share; d < (TL_ITEM + 1) * share && d < TL_DIGITS; ++d) own += totals[r * TL_DIGITS + d];
            u32 before = tl_before(sums, own, &all);
            for (i32 d = TL_ITEM * share; d < (TL_ITEM + 1) * share && d < TL_DIGITS; ++d) {
                first[d] = before + counts[(r * TL_DIGITS + d) * chunks + piece];
                before += totals[r * TL_DIGITS + d];
            }
        }
        for (idx base = begin; base < end; base += TL_TILE) {
            const i32 count = end - base < TL_TILE ? (i32)(end - base) : TL_TILE;
            /* A tile in order of its digits, by four bits and four bits: entries are digits and places in the tile. Gaps keep
             * neighbours out of one bank. */
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                entry[i + i / 16] = (u32)tl_digit(from[(base + i) * from_step], flip, round) << 16 | (u32)i;
            }
            TL_BARRIER;
            for (i32 part = 16; part < 16 + TL_DIGIT; part += 4) {
                u32 own[TL_OWN];
                for (i32 d = 0; d < 16; ++d) {
                    const i32 at = d * TL_ITEMS + TL_ITEM;
                    rank[at + at / 16 * 2] = 0;
                }
                TL_UNROLL
                for (i32 v = 0; v < TL_OWN; ++v) {
                    const i32 i = TL_ITEM * TL_OWN + v;
                    if (i < count) {
                        own[v] = entry[i + i / 16];
                        const i32 at = (i32)(own[v] >> part & 15) * TL_ITEMS + TL_ITEM;
                        ++rank[at + at / 16 * 2];
                    }
                }
                TL_BARRIER;
                u32 sum = 0, all;
                for (i32 k = 0; k < 16; ++k) sum += rank[18 * TL_ITEM + k];
                u32 before = tl_before(sums, sum, &all);
                for (i32 k = 0; k < 16; ++k) {
                    const u32 here = rank[18 * TL_ITEM + k];
                    rank[18 * TL_ITEM + k] = (u16)before;
                    before += here;
                }
                TL_BARRIER;
                TL_UNROLL
                for (i32 v = 0; v < TL_OWN; ++v) {
                    const i32 i = TL_ITEM * TL_OWN + v;
                    if (i < count) {
                        const i32 at = (i32)(own[v] >> part & 15) * TL_ITEMS + TL_ITEM;
                        const i32 to = rank[at + at / 16 * 2]++;
                        entry[to + to / 16] = own[v];
                    }
                }
                TL_BARRIER;
            }
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                const u32 d = entry[i + i / 16] >> 16;
                if (i == 0 || entry[i - 1 + (i - 1) / 16] >> 16 != d) start[d] = (u16)i;
            }
            TL_BARRIER;
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                const u32 own = entry[i + i / 16], d = own >> 16;
                const idx at = base + (idx)(own & 0xffff), to = (idx)(first[d] + (u32)(i - start[d]));
                const tl_bits bits = from[at * from_step];
                if (odd) {
                    p1[q1 + to * value_step] = bits;
                    p2[q2 + to * index_step] = (i64)numbers[r * total + at];
                } else {
                    elements[r * total + to] = bits;
                    numbers[r * total + to] = round == 0 ? (u32)at : (u32)p2[q2 + at * index_step];
                }
            }
            TL_BARRIER;
            for (i32 i = TL_ITEM; i < count; i += TL_ITEMS) {
                const u32 d = entry[i + i / 16] >> 16;
                if (i + 1 == count || entry[i + 1 + (i + 1) / 16] >> 16 != d) first[d] += (u32)(i + 1 - start[d]);
            }
            TL_BARRIER;
        }
    }
}
