// Physical limits of this machine: how fast THREADS threads can read memory, and how fast they can multiply and add.
//
//   limits THREADS BYTES [BYTES...]
//
// prints one line of JSON: {"isa": "avx512", "fma_gflops": …, "read": {"1073741824": GB/s, …}}; GB is 1e9 bytes.
// Reads go over the first BYTES of one buffer in huge pages, written before, in the best of three access patterns.
// Each figure is the best of several rounds: a limit, not an average. Affinity is inherited from the caller.
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ROUNDS = 5, MAX_THREADS = 64 };
static const size_t HUGE_PAGE = 2u << 20;

typedef float (*fma_fn)(long iterations);
typedef float (*read_fn)(const float *p, size_t bytes);
static volatile float sink;

// One FMA kernel and three readers per instruction set. 16 accumulators hide a latency of 4 at 2 (or 4) FMAs a cycle;
// the readers walk one stream, four streams at once, and four with a prefetch 1 KiB ahead.
#define KERNELS(NAME, TARGET, V, LANES, SET1, ADD, FMADD, LOAD)                                                        \
  __attribute__((target(TARGET))) static float total_##NAME(const V *acc, int n) {                                     \
    float out[LANES], sum = 0;                                                                                         \
    V v = acc[0];                                                                                                      \
    for (int i = 1; i < n; i++) v = ADD(v, acc[i]);                                                                    \
    memcpy(out, &v, sizeof out);                                                                                       \
    for (int i = 0; i < LANES; i++) sum += out[i];                                                                     \
    return sum;                                                                                                        \
  }                                                                                                                    \
  __attribute__((target(TARGET))) static float fma_##NAME(long iterations) {                                           \
    V acc[FMA_CHAINS], a = SET1(0.5f), b = SET1(1.0f);                                                                 \
    for (int i = 0; i < FMA_CHAINS; i++) acc[i] = SET1((float)i);                                                      \
    for (long n = 0; n < iterations; n++)                                                                              \
      _Pragma("GCC unroll 16") for (int i = 0; i < FMA_CHAINS; i++) acc[i] = FMADD(acc[i], a, b);                      \
    return total_##NAME(acc, FMA_CHAINS);                                                                              \
  }                                                                                                                    \
  __attribute__((target(TARGET))) static inline float read_##NAME(const float *p, size_t bytes, int streams,           \
                                                                  int ahead) {                                         \
    V acc[8];                                                                                                          \
    for (int i = 0; i < 8; i++) acc[i] = SET1(0.0f);                                                                   \
    size_t part = bytes / sizeof(float) / streams;                                                                     \
    for (size_t at = 0; at + 8 * LANES <= part; at += 8 * LANES)                                                       \
      for (int s = 0; s < streams; s++) {                                                                              \
        const float *q = p + s * part + at;                                                                            \
        if (ahead)                                                                                                     \
          for (int i = 0; i < 8 * LANES; i += 16) _mm_prefetch((const char *)(q + i) + ahead, _MM_HINT_T0);            \
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) acc[i] = ADD(acc[i], LOAD(q + i * LANES));                 \
      }                                                                                                                \
    return total_##NAME(acc, 8);                                                                                       \
  }                                                                                                                    \
  __attribute__((target(TARGET))) static float plain_##NAME(const float *p, size_t b) {                                \
    return read_##NAME(p, b, 1, 0);                                                                                    \
  }                                                                                                                    \
  __attribute__((target(TARGET))) static float ahead_##NAME(const float *p, size_t b) {                                \
    return read_##NAME(p, b, 4, 1024);                                                                                 \
  }                                                                                                                    \
  __attribute__((target(TARGET))) static float four_##NAME(const float *p, size_t b) {                                 \
    return read_##NAME(p, b, 4, 0);                                                                                    \
  }

#define FMA_CHAINS 16
#define SSE_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
KERNELS(avx512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps)
#undef FMA_CHAINS
#define FMA_CHAINS 12  // 16 registers: 12 chains and two constants
KERNELS(avx2, "avx2,fma", __m256, 8, _mm256_set1_ps, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps)
KERNELS(sse2, "sse2", __m128, 4, _mm_set1_ps, _mm_add_ps, SSE_FMA, _mm_loadu_ps)

static struct {
  const char *name;
  int flops_per_iteration;  // of one FMA kernel
  fma_fn fma;
  read_fn read[3];
} isa;

static void pick_isa(void) {
#define PICK(NAME, FLOPS)                                                                                              \
  isa.name = #NAME, isa.flops_per_iteration = FLOPS, isa.fma = fma_##NAME, isa.read[0] = plain_##NAME,                 \
  isa.read[1] = four_##NAME, isa.read[2] = ahead_##NAME
  if (__builtin_cpu_supports("avx512f")) PICK(avx512, 2 * 16 * 16);
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) PICK(avx2, 2 * 12 * 8);
  else PICK(sse2, 2 * 12 * 4);
}

// One round: what each thread does `passes` times between two barriers.
static struct {
  const float *data;  // NULL: FMA
  size_t share;       // bytes a thread reads
  read_fn read;
  long passes;
} job;
static pthread_barrier_t gate;

static void work(size_t id) {
  if (!job.data) {
    sink = isa.fma(job.passes);
    return;
  }
  for (long n = 0; n < job.passes; n++) sink = job.read(job.data + id * job.share / sizeof(float), job.share);
}

static void *helper(void *id) {
  for (;;) {
    pthread_barrier_wait(&gate);
    work((size_t)id);
    pthread_barrier_wait(&gate);
  }
  return NULL;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Seconds of one round of `job`.
static double one_round(void) {
  pthread_barrier_wait(&gate);
  double start = now();
  work(0);
  pthread_barrier_wait(&gate);
  return now() - start;
}

int main(int argc, char **argv) {
  int threads = argc > 2 ? atoi(argv[1]) : 0;
  size_t most = 0;
  for (int i = 2; i < argc; i++) {
    size_t bytes = strtoull(argv[i], NULL, 10);
    if (bytes > most) most = bytes;
  }
  if (threads < 1 || threads > MAX_THREADS || most == 0) {
    fprintf(stderr, "usage: limits THREADS BYTES [BYTES...]\n");
    return 2;
  }
  pick_isa();
  most = (most + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  float *data = aligned_alloc(HUGE_PAGE, most);
  if (!data) return perror("limits"), 1;
  madvise(data, most, MADV_HUGEPAGE);
  for (size_t i = 0; i < most / sizeof(float); i++) data[i] = 1.0f;

  pthread_barrier_init(&gate, NULL, (unsigned)threads);
  for (size_t id = 1; id < (size_t)threads; id++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, helper, (void *)id)) return perror("limits"), 1;
  }

  job.passes = 5000000;
  double fma = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    double seconds = one_round();
    if (seconds < fma) fma = seconds;
  }
  double gflops = 1e-9 * isa.flops_per_iteration * (double)job.passes * threads / fma;
  printf("{\"isa\": \"%s\", \"fma_gflops\": %.1f, \"read\": {", isa.name, gflops);
  for (int i = 2; i < argc; i++) {
    size_t bytes = strtoull(argv[i], NULL, 10);
    job.data = data;
    job.share = bytes / (size_t)threads / 4096 * 4096;
    job.passes = (long)(((size_t)256 << 20) / bytes) + 1;
    double best = 1e30;
    for (int round = 0; round < ROUNDS * 3; round++) {  // patterns in turn, for the machine drifts
      job.read = isa.read[round % 3];
      double seconds = one_round();
      if (seconds < best) best = seconds;
    }
    best = 1e-9 * (double)job.share * threads * (double)job.passes / best;
    printf("%s\"%zu\": %.1f", i > 2 ? ", " : "", bytes, best);
  }
  printf("}}\n");
  return 0;
}
