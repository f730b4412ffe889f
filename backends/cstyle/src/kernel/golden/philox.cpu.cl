/* noise */
typedef i32 idx;
enum { TL_ITEMS = 1 };
typedef struct { i64 at[6]; } tl_words;
TL_KERNEL void tl_noise_0(TL_GLOBAL u32 * TL_RESTRICT b0, const tl_words words) {
    const idx rows = (idx)words.at[0];
    const idx total = (idx)words.at[1];
    const idx chunks = (idx)words.at[2];
    const idx length = (idx)words.at[3];
    TL_GLOBAL u32 *const p0 = (TL_GLOBAL u32 *)((TL_GLOBAL char *)b0 + words.at[4]);
    const u64 c0 = (u64)words.at[5];
    const u64 n0 = (u64)c0;
    const idx begin = (idx)TL_GROUP * length;
    const idx end = total - begin < length ? total : begin + length;
    TL_PARALLEL
    for (idx j = begin; j < end; ++j) {
        const i64 n1 = (i64)(j);
        const u64 n2 = (u64)n1;
        const u32 n3 = tl_philox(n0, n2);
        p0[j] = n3;
    }
}
