// Makes a process see a processor of the AVX2 generation (x86-64-v3, without VNNI): loaded by LD_PRELOAD, it lets CPUID fault and
// answers without the bits of AVX-512, AVX10, AMX and AVX-VNNI. Threads and forks inherit that, and so do programs that are started
// with the same environment. What was chosen before (functions of the C library) stays. It needs a processor and a kernel that offer
// the faulting of CPUID: `cpuid_fault` in /proc/cpuinfo.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static void bits(uint32_t *word, const int *list, int count) {
    for (int i = 0; i < count; i++) *word &= ~(1u << list[i]);
}
#define WITHOUT(word, ...) bits(&(word), (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static void answer(int number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    if (code[0] != 0x0f || code[1] != 0xa2) {  // a fault of the program's own: it comes again, without this handler
        signal(number, SIG_DFL);
        return;
    }
    uint32_t leaf = registers[REG_RAX], part = registers[REG_RCX], a, b, c, d;
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    if (leaf == 7 && part == 0) {
        WITHOUT(b, 16, 17, 21, 26, 27, 28, 30, 31);  // AVX512 F, DQ, IFMA, PF, ER, CD, BW, VL
        WITHOUT(c, 1, 6, 11, 12, 14);                // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
        WITHOUT(d, 2, 3, 8, 22, 23, 24, 25);         // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8
    } else if (leaf == 7 && part == 1) {
        WITHOUT(a, 4, 5, 21);          // AVX-VNNI, AVX512-BF16, AMX-FP16
        WITHOUT(d, 4, 5, 8, 10, 19);   // AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSEGV, &action, NULL) != 0 || syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) != 0) {
        perror("avx2.c: CPUID cannot be made to fault here");
        exit(1);
    }
}
