/* Word `counter % 4` of Philox4x32-10 with counter block `(counter / 4, 0)`: Salmon et al., SC'11. */
TL_FN u32 tl_philox(u64 key, u64 counter) {
    const u64 block = counter / 4;
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = 0, c3 = 0;
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    TL_UNROLL
    for (i32 round = 0; round < 10; ++round) {
        const u32 high0 = tl_mul_hi(0xd2511f53u, c0), low0 = 0xd2511f53u * c0;
        const u32 high1 = tl_mul_hi(0xcd9e8d57u, c2), low1 = 0xcd9e8d57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const u32 low = counter & 1 ? c1 : c0, high = counter & 1 ? c3 : c2;
    return counter & 2 ? high : low;
}
