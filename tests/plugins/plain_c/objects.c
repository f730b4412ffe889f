/* Errors, objects and handles. */
#include "objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static _Thread_local char last_text[512];

int32_t fail(int32_t status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_text, sizeof last_text, format, args);
    va_end(args);
    return status;
}

size_t last_error(thalweg_context context, uint8_t *buffer, size_t capacity) {
    (void)context;
    size_t len = strlen(last_text);
    if (buffer)
        memcpy(buffer, last_text, len < capacity ? len : capacity);
    return len;
}

uint64_t pages(int which) {
    long count = sysconf(which), size = sysconf(_SC_PAGESIZE);
    return count > 0 && size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

static const char *const kind_names[] = {"device", "buffer", "stream", "event"};

struct objects all = {.lock = PTHREAD_MUTEX_INITIALIZER};

int32_t enter(thalweg_context context) {
    if (context != &all)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "the context is not the one that " NAME " handed over");
    if (all.down)
        return fail(THALWEG_STATUS_UNAVAILABLE, "the backend " NAME " was shut down");
    return THALWEG_STATUS_OK;
}

static struct slot *lookup(enum kind kind, uint64_t handle) {
    uint32_t index = (uint32_t)handle;
    struct slot *slot = index < all.count ? &all.slots[index] : NULL;
    int found = slot && slot->object && slot->generation == handle >> 32 && slot->object->kind == kind;
    return found ? slot : NULL;
}

int32_t find(enum kind kind, uint64_t handle, struct object **out) {
    pthread_mutex_lock(&all.lock);
    struct slot *slot = lookup(kind, handle);
    *out = slot ? slot->object : NULL;
    pthread_mutex_unlock(&all.lock);
    if (!*out)
        return fail(THALWEG_STATUS_INVALID_HANDLE, "no %s has the handle %#llx; it was destroyed or never created",
                    kind_names[kind], (unsigned long long)handle);
    return THALWEG_STATUS_OK;
}

/* Makes room in both arrays for one more slot. */
static int grow(void) {
    if (all.count < all.capacity)
        return 1;
    uint32_t capacity = all.capacity ? all.capacity * 2 : 64;
    struct slot *slots = realloc(all.slots, capacity * sizeof *slots);
    if (slots)
        all.slots = slots;
    uint32_t *free_slots = realloc(all.free, capacity * sizeof *free_slots);
    if (free_slots)
        all.free = free_slots;
    if (slots && free_slots)
        all.capacity = capacity;
    return slots && free_slots;
}

int32_t insert(struct object object, uint64_t *out) {
    struct object *copy = malloc(sizeof *copy);
    pthread_mutex_lock(&all.lock);
    if (!copy || !(all.free_count || grow())) {
        pthread_mutex_unlock(&all.lock);
        free(copy);
        return fail(THALWEG_STATUS_OUT_OF_MEMORY, "no memory for another %s", kind_names[object.kind]);
    }
    uint32_t index = all.free_count ? all.free[--all.free_count] : all.count;
    if (index == all.count)
        all.slots[all.count++] = (struct slot){NULL, 0};
    struct slot *slot = &all.slots[index];
    slot->generation = slot->generation == UINT32_MAX ? 1 : slot->generation + 1;
    *copy = object;
    slot->object = copy;
    *out = (uint64_t)slot->generation << 32 | index;
    pthread_mutex_unlock(&all.lock);
    return THALWEG_STATUS_OK;
}

void drop(struct slot *slot) {
    struct object *object = slot->object;
    slot->object = NULL;
    all.free[all.free_count++] = (uint32_t)(slot - all.slots);
    if (object->kind == BUFFER) {
        struct slot *device = lookup(DEVICE, object->device);
        if (device) {
            thalweg_memory_statistics *figures = &device->object->figures;
            figures->reserved -= object->reserved;
            figures->allocated -= object->reserved;
            figures->live--;
            figures->frees++;
        }
        free(object->memory);
    }
    free(object);
}

int32_t destroy(enum kind kind, uint64_t handle) {
    struct object *object;
    TRY(find(kind, handle, &object));
    pthread_mutex_lock(&all.lock);
    struct slot *slot = lookup(kind, handle);
    if (slot)
        drop(slot);
    pthread_mutex_unlock(&all.lock);
    return THALWEG_STATUS_OK;
}
