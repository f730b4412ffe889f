/* What the source has in PTX of products of small matrices and of copies into shared memory. Part of kernel.h. */

/* Shared memory is thread-local, and its addresses count from here. */
static thread_local char standin_shared;
static uint64_t __cvta_generic_to_shared(const void *at) { return (uint64_t)((const char *)at - &standin_shared); }
static char *standin_at(unsigned address) { return &standin_shared + (int)address; }

/* What the lanes of a warp hold; it stays until `standin_read`. */
template <class T> struct standin_lanes {
    const T *of[STANDIN_WARP];
    standin_lanes(const T &own) {
        const unsigned first = threadIdx.x / STANDIN_WARP * STANDIN_WARP;
        standin_group &warp = standin->warps[first / STANDIN_WARP];
        if (warp.size != STANDIN_WARP)
            abort();
        const T *at = &own;
        memcpy(&standin->exchange[threadIdx.x], &at, sizeof at);
        standin_meet(warp);
        memcpy(of, &standin->exchange[first], sizeof of);
    }
    void standin_read() const { standin_meet(standin->warps[threadIdx.x / STANDIN_WARP]); }
};

struct standin_fragments {
    unsigned a[4], b[2];
};
/* An element of a fragment's word: one of two halves, or all of it. */
static double standin_f16_of(unsigned word, unsigned part) {
    const unsigned bits = word >> 16 * part & 0xffff;
    const bool finite = (bits & 0x7c00) != 0x7c00;
    return finite ? (double)standin_bits<float>((bits & 0x8000) << 16 | (bits & 0x7fff) << 13) * 0x1p112
                  : standin_value<standin_f16>(bits);
}
static double standin_bf16_of(unsigned word, unsigned part) {
    return standin_bits<float>(part ? word & 0xffff0000 : word << 16);
}
static double standin_tf32_of(unsigned word, unsigned) { return standin_bits<float>(word & 0xffffe000); }

/* `parts` elements of a row of A, or of a column of B, are in a word. Sums are rounded once. */
template <unsigned parts, double element(unsigned, unsigned)>
static void standin_mma(float &c0, float &c1, float &c2, float &c3, const standin_fragments &own) {
    const standin_lanes<standin_fragments> lanes(own);
    const unsigned lane = threadIdx.x % STANDIN_WARP;
    float *const sums[4] = {&c0, &c1, &c2, &c3};
    for (unsigned i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        double sum = *sums[i];
        for (unsigned word = 0; word < 8; word++)
            for (unsigned part = 0; part < parts; part++)
                sum += element(lanes.of[row % 8 * 4 + word % 4]->a[row / 8 + word / 4 * 2], part) *
                       element(lanes.of[column * 4 + word % 4]->b[word / 4], part);
        *sums[i] = (float)sum;
    }
    lanes.standin_read();
}
#define STANDIN_MMA(name, parts, element)                                                                              \
    static void standin_mma_sync_aligned_##name(float &c0, float &c1, float &c2, float &c3, unsigned a0, unsigned a1,  \
                                                unsigned a2, unsigned a3, unsigned b0, unsigned b1) {                  \
        standin_mma<parts, element>(c0, c1, c2, c3, {{a0, a1, a2, a3}, {b0, b1}});                                     \
    }
STANDIN_MMA(m16n8k16_row_col_f32_f16_f16_f32, 2, standin_f16_of)
STANDIN_MMA(m16n8k16_row_col_f32_bf16_bf16_f32, 2, standin_bf16_of)
STANDIN_MMA(m16n8k8_row_col_f32_tf32_tf32_f32, 1, standin_tf32_of)

/* Rows that do not begin on 16 bytes are a fault. */
static void standin_matrices(unsigned *const (&to)[4], unsigned address, bool turned) {
    if ((uintptr_t)standin_at(address) % 16)
        abort();
    const standin_lanes<unsigned> lanes(address);
    const unsigned lane = threadIdx.x % STANDIN_WARP;
    for (unsigned matrix = 0; matrix < 4; matrix++) {
        uint16_t pair[2];
        for (unsigned part = 0; part < 2; part++) {
            const unsigned along = lane % 4 * 2 + part, row = turned ? along : lane / 4, column = turned ? lane / 4 : along;
            memcpy(&pair[part], standin_at(*lanes.of[matrix * 8 + row]) + column * 2, 2);
        }
        memcpy(to[matrix], pair, 4);
    }
    lanes.standin_read();
}
static void standin_ldmatrix_sync_aligned_m8n8_x4_shared_b16(unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned at) {
    standin_matrices({&a, &b, &c, &d}, at, false);
}
static void standin_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(unsigned &a, unsigned &b, unsigned &c, unsigned &d,
                                                                   unsigned at) {
    standin_matrices({&a, &b, &c, &d}, at, true);
}

/* A copy that has not been waited for left NaN. */
struct standin_copy {
    char *to;
    const void *from;
    unsigned bytes, group;
};
enum { STANDIN_COPIES = 256 };
struct standin_copies {
    unsigned block, groups, count;
    standin_copy of[STANDIN_COPIES];
};
/* Those of a thread, without what an earlier block left. */
static standin_copies &standin_own_copies() {
    static thread_local standin_copies *all;
    if (!all)
        all = (standin_copies *)calloc(STANDIN_THREADS, sizeof *all);
    standin_copies &own = all[threadIdx.x];
    if (own.block != standin->blocks)
        own.block = standin->blocks, own.groups = own.count = 0;
    return own;
}
static void standin_cp_async_cg_shared_global(unsigned address, const void *from, unsigned bytes) {
    standin_copies &own = standin_own_copies();
    char *const to = standin_at(address);
    if (own.count == STANDIN_COPIES || (uintptr_t)to % 16 || (bytes && (uintptr_t)from % 16))
        abort();
    memset(to, 0xff, 16);
    own.of[own.count++] = {to, from, bytes, own.groups};
}
static void standin_cp_async_commit_group() { standin_own_copies().groups++; }
static void standin_cp_async_wait_group(unsigned last) {
    standin_copies &own = standin_own_copies();
    unsigned left = 0;
    for (unsigned i = 0; i < own.count; i++) {
        const standin_copy copy = own.of[i];
        if (copy.group + last >= own.groups) {
            own.of[left++] = copy;
            continue;
        }
        memset(copy.to, 0, 16);
        memcpy(copy.to, copy.from, copy.bytes);
    }
    own.count = left;
}

static float standin_ex2_approx_ftz_f32(float x) {
    const float power = exp2f(x);
    return power < 0x1p-126f ? 0 : power;
}
