/* An OpenCL vendor with nothing behind it: a platform with as many devices as FAKE_DEVICES says, which have no compiler. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* The loader reaches every function of an object through the table that the object starts with. */
struct object {
    void *const *dispatch;
};

static int32_t answer(const void *value, size_t size, size_t room, void *out, size_t *got) {
    if (out) {
        if (room < size)
            return -30;
        memcpy(out, value, size);
    }
    if (got)
        *got = size;
    return 0;
}

static int32_t text(const char *value, size_t room, void *out, size_t *got) {
    return answer(value, strlen(value) + 1, room, out, got);
}

static int32_t get_platform_ids(uint32_t room, struct object **out, uint32_t *count);

static int32_t get_platform_info(struct object *platform, uint32_t key, size_t room, void *out, size_t *got) {
    (void)platform;
    switch (key) {
    case 0x0900:
        return text("FULL_PROFILE", room, out, got);
    case 0x0901:
        return text("OpenCL 3.0 fake", room, out, got);
    case 0x0904:
        return text("cl_khr_icd", room, out, got);
    case 0x0920:
        return text("FAKE", room, out, got);
    default:
        return text("Fake platform", room, out, got);
    }
}

static struct object device;

static int32_t get_device_ids(struct object *platform, uint64_t type, uint32_t room, struct object **out,
                              uint32_t *count) {
    const char *devices = getenv("FAKE_DEVICES");
    (void)platform;
    (void)type;
    if (!devices || *devices == '0')
        return -1;
    if (out && room)
        out[0] = &device;
    if (count)
        *count = 1;
    return 0;
}

static int32_t get_device_info(struct object *of, uint32_t key, size_t room, void *out, size_t *got) {
    uint64_t number;
    (void)of;
    switch (key) {
    case 0x102b:
        return text("Fake device", room, out, got);
    case 0x102f:
        return text("OpenCL 3.0 fake", room, out, got);
    case 0x102c:
    case 0x102d:
    case 0x1030:
        return text("fake", room, out, got);
    case 0x1000: /* type */
        number = 4;
        break;
    case 0x1028: /* compiler */
        number = 0;
        break;
    case 0x1019: /* alignment in bits */
        number = 1024;
        break;
    default:
        number = 1;
    }
    return answer(&number, sizeof number, room, out, got);
}

/* The first functions of cl_icd_dispatch; nobody calls the others. */
static void *const table[200] = {
    (void *)get_platform_ids,
    (void *)get_platform_info,
    (void *)get_device_ids,
    (void *)get_device_info,
};
static struct object platform = {table};
static struct object device = {table};

static int32_t get_platform_ids(uint32_t room, struct object **out, uint32_t *count) {
    if (out && room)
        out[0] = &platform;
    if (count)
        *count = 1;
    return 0;
}

EXPORT int32_t clIcdGetPlatformIDsKHR(uint32_t room, struct object **out, uint32_t *count) {
    return get_platform_ids(room, out, count);
}

EXPORT int32_t clGetPlatformInfo(struct object *of, uint32_t key, size_t room, void *out, size_t *got) {
    return get_platform_info(of, key, room, out, got);
}

EXPORT void *clGetExtensionFunctionAddress(const char *name) {
    if (!strcmp(name, "clIcdGetPlatformIDsKHR"))
        return (void *)clIcdGetPlatformIDsKHR;
    if (!strcmp(name, "clGetPlatformInfo"))
        return (void *)get_platform_info;
    return NULL;
}
