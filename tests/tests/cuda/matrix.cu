/* `c` is the product of `a`, 16 by 16, and `b`, 16 by 8, each row by row. The last four rows of `a` count as zeros. */
TL_KERNEL void product_f16(const u16 *a, const u16 *b, f32 *c) {
    TL_LOCAL __align__(16) u16 left[256], right[128];
    const u32 lane = threadIdx.x;
    tl_copy_16(left + lane * 8, a + lane * 8, lane < 24);
    tl_copies_commit();
    if (lane < 16) tl_copy_16(right + lane * 8, b + lane * 8, true);
    tl_copies_commit();
    tl_copies_wait<1>();
    const bool early = lane > 15 || right[lane * 8] == 0xffff;
    tl_copies_wait<0>();
    TL_BARRIER;
    u32 x[4], y[4];
    tl_matrices(x, left + lane % 16 * 16 + lane / 16 * 8);
    tl_matrices_turned(y, right + lane % 16 * 8);
    f32 sum[4] = {0, 0, 0, 0};
    const u32 some[2] = {y[0], y[1]};
    tl_mma_f16(sum, x, some);
    for (u32 i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = early ? sum[i] : -1;
}

/* The same of all rows, with fragments as PTX describes them. */
TL_KERNEL void product_bf16(const u16 *a, const u16 *b, f32 *c) {
    const u32 lane = threadIdx.x, group = lane / 4, of = lane % 4;
    u32 x[4], y[2];
    for (u32 i = 0; i < 4; ++i) {
        const u16 *const at = a + (group + i % 2 * 8) * 16 + of * 2 + i / 2 * 8;
        x[i] = at[0] | (u32)at[1] << 16;
    }
    for (u32 i = 0; i < 2; ++i) {
        const u16 *const at = b + (of * 2 + i * 8) * 8 + group;
        y[i] = at[0] | (u32)at[8] << 16;
    }
    f32 sum[4] = {0, 0, 0, 0};
    tl_mma_bf16(sum, x, y);
    for (u32 i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + of * 2 + i % 2] = sum[i];
    TL_BARRIER;
}

/* In two steps, of 8 columns of `a` each. */
TL_KERNEL void product_tf32(const f32 *a, const f32 *b, f32 *c) {
    const u32 lane = threadIdx.x, group = lane / 4, of = lane % 4;
    f32 sum[4] = {0, 0, 0, 0};
    for (u32 k = 0; k < 16; k += 8) {
        u32 x[4], y[2];
        for (u32 i = 0; i < 4; ++i) x[i] = tl_bits_of_f32(a[(group + i % 2 * 8) * 16 + k + of + i / 2 * 4]);
        for (u32 i = 0; i < 2; ++i) y[i] = tl_bits_of_f32(b[(k + of + i * 4) * 8 + group]);
        tl_mma_tf32(sum, x, y);
    }
    for (u32 i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + of * 2 + i % 2] = sum[i];
    TL_BARRIER;
}
