/* The device table: one device, which is host memory. */
#include "objects.h"

#include <unistd.h>

static int32_t check_ordinal(uint32_t ordinal) {
    if (ordinal != 0)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, NAME " has no device %u; its only device is 0", ordinal);
    return THALWEG_STATUS_OK;
}

static int32_t properties(thalweg_context context, uint32_t ordinal, thalweg_device_properties *out) {
    TRY(enter(context));
    NOT_NULL(out);
    TRY(check_ordinal(ordinal));
    *out = (thalweg_device_properties){
        .name = "host memory, through plain C",
        .arch = THALWEG_MANIFEST_ARCH,
        .kind = THALWEG_KIND_CPU,
        .compute_units = 1,
        .total_memory = pages(_SC_PHYS_PAGES),
        .capabilities = THALWEG_CAPABILITY_MAP | THALWEG_CAPABILITY_UNIFIED_MEMORY | THALWEG_CAPABILITY_TIMING,
        .alignment = ALIGNMENT,
    };
    return THALWEG_STATUS_OK;
}

static int32_t is_available(thalweg_context context, uint32_t ordinal) {
    TRY(enter(context));
    return check_ordinal(ordinal);
}

static int32_t open_device(thalweg_context context, const thalweg_device_options *options, uint64_t *out) {
    TRY(enter(context));
    NOT_NULL(options);
    NOT_NULL(out);
    TRY(check_ordinal(options->ordinal));
    return insert((struct object){.kind = DEVICE, .figures.limit = options->memory_limit}, out);
}

/* Work is done when it has been submitted, so waiting is reporting what callbacks returned. */
static int32_t synchronize_device(thalweg_context context, uint64_t device) {
    TRY(enter(context));
    FIND(DEVICE, object, device);
    int32_t first = 0;
    pthread_mutex_lock(&all.lock);
    for (uint32_t i = 0; i < all.count; i++) {
        struct object *stream = all.slots[i].object;
        if (stream && stream->kind == STREAM && stream->device == device) {
            int32_t code = atomic_exchange(&stream->error, 0);
            first = first ? first : code;
        }
    }
    pthread_mutex_unlock(&all.lock);
    return first ? fail(THALWEG_STATUS_LAUNCH_FAILED, "the host's callback returned %d", first) : THALWEG_STATUS_OK;
}

static int32_t close_device(thalweg_context context, uint64_t device) {
    TRY(enter(context));
    FIND(DEVICE, object, device);
    int32_t status = synchronize_device(context, device);
    pthread_mutex_lock(&all.lock);
    for (uint32_t i = 0; i < all.count; i++)
        if (all.slots[i].object && all.slots[i].object->kind != DEVICE && all.slots[i].object->device == device)
            drop(&all.slots[i]);
    pthread_mutex_unlock(&all.lock);
    TRY(destroy(DEVICE, device));
    return status;
}

static int32_t device_status(thalweg_context context, uint64_t device) {
    struct object *object;
    TRY(enter(context));
    return find(DEVICE, device, &object);
}

static int32_t query_device(thalweg_context context, uint64_t device, uint32_t key, uint64_t *out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(DEVICE, object, device);
    if (key != THALWEG_PROPERTY_KEY_THREADS)
        return fail(THALWEG_STATUS_UNSUPPORTED, "property key %u does not apply to " NAME, key);
    *out = 1;
    return THALWEG_STATUS_OK;
}

const thalweg_device_table device_table = {
    .properties = properties,
    .is_available = is_available,
    .open = open_device,
    .close = close_device,
    .synchronize = synchronize_device,
    .status = device_status,
    .query = query_device,
};
