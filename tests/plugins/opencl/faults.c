/* The machine's OpenCL loader with faults, which names of kernels ask for:
 *   fault_build   what is no C is put before the source's first line
 *   fault_launch  the command ends with an error, and the kernel does not run
 *   fault_lost    from then on clFinish does not know the queue
 * All else goes to libOpenCL.so.1, on which this library depends. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef void *handle;

static void *real(const char *name) {
    return dlsym(dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL), name);
}

EXPORT handle clCreateProgramWithSource(handle context, uint32_t count, const char **texts, const size_t *lengths,
                                        int32_t *code) {
    handle (*create)(handle, uint32_t, const char **, const size_t *, int32_t *) = real("clCreateProgramWithSource");
    /* The source is the last text; the backend's declarations may stand before it. */
    enum { MOST_TEXTS = 8 };
    if (count > 0 && count < MOST_TEXTS && memmem(texts[count - 1], lengths[count - 1], "fault_build", 11)) {
        static const char broken[] = "constant int broken = not_declared; ";
        const char *all[MOST_TEXTS];
        size_t long_all[MOST_TEXTS];
        for (uint32_t i = 0; i < count; i++) {
            all[i] = texts[i];
            long_all[i] = lengths[i];
        }
        all[count] = all[count - 1];
        long_all[count] = long_all[count - 1];
        all[count - 1] = broken;
        long_all[count - 1] = sizeof broken - 1;
        return create(context, count + 1, all, long_all, code);
    }
    return create(context, count, texts, lengths, code);
}

/* Kernels by their names: handles are remembered when they are made. */
enum { MOST = 64 };
static _Atomic(handle) failing[MOST], losing[MOST];
static _Atomic(handle) lost;

static void remember(_Atomic(handle) *list, handle kernel) {
    for (int i = 0; i < MOST; i++) {
        handle none = NULL;
        if (atomic_compare_exchange_strong(&list[i], &none, kernel))
            return;
    }
}

static int is_in(_Atomic(handle) *list, handle kernel) {
    for (int i = 0; i < MOST; i++)
        if (kernel && atomic_load(&list[i]) == kernel)
            return 1;
    return 0;
}

static void forget(_Atomic(handle) *list, handle kernel) {
    for (int i = 0; i < MOST; i++) {
        handle same = kernel;
        atomic_compare_exchange_strong(&list[i], &same, NULL);
    }
}

/* The next object may lie where this one lay. */
EXPORT int32_t clReleaseKernel(handle kernel) {
    int32_t (*release)(handle) = real("clReleaseKernel");
    forget(failing, kernel);
    forget(losing, kernel);
    return release(kernel);
}

EXPORT int32_t clReleaseCommandQueue(handle queue) {
    int32_t (*finish)(handle) = real("clFinish");
    int32_t (*release)(handle) = real("clReleaseCommandQueue");
    handle same = queue;
    finish(queue);
    atomic_compare_exchange_strong(&lost, &same, NULL);
    return release(queue);
}

EXPORT handle clCreateKernel(handle program, const char *name, int32_t *code) {
    handle (*create)(handle, const char *, int32_t *) = real("clCreateKernel");
    handle kernel = create(program, name, code);
    if (strstr(name, "fault_launch"))
        remember(failing, kernel);
    if (strstr(name, "fault_lost"))
        remember(losing, kernel);
    return kernel;
}

EXPORT int32_t clEnqueueNDRangeKernel(handle queue, handle kernel, uint32_t axes, const size_t *offset,
                                      const size_t *global, const size_t *local, uint32_t waits, const handle *list,
                                      handle *event) {
    int32_t (*launch)(handle, handle, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, const handle *,
                      handle *) = real("clEnqueueNDRangeKernel");
    if (is_in(losing, kernel))
        atomic_store(&lost, queue);
    if (is_in(failing, kernel)) {
        int32_t (*info)(handle, uint32_t, size_t, void *, size_t *) = real("clGetCommandQueueInfo");
        handle (*user)(handle, int32_t *) = real("clCreateUserEvent");
        int32_t (*complete)(handle, int32_t) = real("clSetUserEventStatus");
        int32_t code = 0;
        handle context;
        info(queue, 0x1090, sizeof context, &context, NULL);
        *event = user(context, &code);
        return code ? code : complete(*event, -5);
    }
    return launch(queue, kernel, axes, offset, global, local, waits, list, event);
}

EXPORT int32_t clFinish(handle queue) {
    int32_t (*finish)(handle) = real("clFinish");
    return atomic_load(&lost) == queue ? -36 : finish(queue);
}
