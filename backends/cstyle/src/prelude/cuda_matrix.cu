/* Products of small matrices by a whole warp, whose lanes hold the parts that PTX calls fragments, and copies into local memory
 * that go on meanwhile. Lanes of a warp call them together. */
TL_FN void tl_mma_f16(f32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TL_FN void tl_mma_bf16(f32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* f32, of which 10 digits behind the leading one are read. */
TL_FN void tl_mma_tf32(f32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four matrices of 8 by 8 halves: 8 lanes tell where the rows of each begin, on 16 bytes. */
TL_FN void tl_matrices(u32 (&to)[4], const void *shared) {
    const u32 at = (u32)__cvta_generic_to_shared(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}
TL_FN void tl_matrices_turned(u32 (&to)[4], const void *shared) {
    const u32 at = (u32)__cvta_generic_to_shared(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

/* Copies 16 bytes, or writes zeros. The bytes are there after the wait. */
TL_FN void tl_copy_16(void *shared, const void *global, bool inside) {
    const u32 at = (u32)__cvta_generic_to_shared(shared), bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(at), "l"(global), "r"(bytes) : "memory");
}
/* The copies since the last call are a group. */
TL_FN void tl_copies_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
/* Waits for all groups of this work-item but the last `N`. Others see the bytes past a barrier. */
template <int N> TL_FN void tl_copies_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory"); }

/* The value of the work-item whose place in the warp differs in the bits of `with`. */
#define TL_TURN(type, value, with) ((type)__shfl_xor_sync(0xffffffffu, value, with))
/* 2 to the power `x`, to 2 units of the last place; results below the normal ones are 0. */
TL_FN f32 tl_power_of_two(f32 x) {
    f32 power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
