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
