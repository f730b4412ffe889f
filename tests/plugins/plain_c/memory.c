/* The memory table. Every buffer is an allocation of its own, so nothing is ever idle. */
#include "objects.h"

#include <unistd.h>

static int32_t alloc(thalweg_context context, const thalweg_alloc_args *args, uint64_t *out) {
    struct object *device, *stream;
    TRY(enter(context));
    NOT_NULL(args);
    NOT_NULL(out);
    TRY(find(DEVICE, args->device, &device));
    if (args->stream) {
        TRY(find(STREAM, args->stream, &stream));
        if (stream->device != args->device)
            return fail(THALWEG_STATUS_INVALID_HANDLE, "the stream belongs to another device");
    }
    uint64_t size = (args->bytes ? args->bytes - 1 : 0) / ALIGNMENT * ALIGNMENT + ALIGNMENT;
    thalweg_memory_statistics *figures = &device->figures;
    pthread_mutex_lock(&all.lock);
    uint64_t limit = figures->limit ? figures->limit : pages(_SC_PHYS_PAGES);
    int fits = size >= args->bytes && size <= limit && figures->reserved <= limit - size;
    uint8_t *memory = fits ? aligned_alloc(ALIGNMENT, size) : NULL;
    if (memory) {
        figures->reserved = figures->allocated += size;
        if (figures->max_allocated < figures->allocated)
            figures->max_reserved = figures->max_allocated = figures->allocated;
        figures->live++;
        figures->allocations++;
        figures->reserves++;
    } else {
        figures->out_of_memory++;
    }
    uint64_t used = figures->reserved;
    pthread_mutex_unlock(&all.lock);
    if (!memory) {
        int named = args->tag && args->tag->op.len && args->tag->op.len < 128;
        return fail(THALWEG_STATUS_OUT_OF_MEMORY, "%.*s: %llu bytes do not fit: %llu of %llu bytes are in use",
                    named ? (int)args->tag->op.len : 10, named ? (const char *)args->tag->op.ptr : "allocation",
                    (unsigned long long)args->bytes, (unsigned long long)used, (unsigned long long)limit);
    }
    struct object buffer = {
        .kind = BUFFER, .device = args->device, .memory = memory, .bytes = args->bytes, .reserved = size};
    return insert(buffer, out);
}

static int32_t free_buffer(thalweg_context context, uint64_t buffer) {
    TRY(enter(context));
    return destroy(BUFFER, buffer);
}

static int32_t import(thalweg_context context, const thalweg_import_args *args, uint64_t *out) {
    TRY(enter(context));
    NOT_NULL(args);
    NOT_NULL(out);
    FIND(DEVICE, device, args->device);
    return fail(THALWEG_STATUS_UNSUPPORTED, "this device cannot use host memory in place; copy it");
}

static int32_t map(thalweg_context context, uint64_t buffer, void **out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(BUFFER, object, buffer);
    *out = object->memory;
    return THALWEG_STATUS_OK;
}

static int32_t size_of_buffer(thalweg_context context, uint64_t buffer, uint64_t *out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(BUFFER, object, buffer);
    *out = object->bytes;
    return THALWEG_STATUS_OK;
}

static int32_t trim(thalweg_context context, uint64_t device, uint64_t *out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(DEVICE, object, device);
    *out = 0;
    return THALWEG_STATUS_OK;
}

static int32_t statistics(thalweg_context context, uint64_t device, thalweg_memory_statistics *out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(DEVICE, object, device);
    pthread_mutex_lock(&all.lock);
    *out = object->figures;
    pthread_mutex_unlock(&all.lock);
    return THALWEG_STATUS_OK;
}

/* Every buffer fills a block of its own. */
static int32_t ranges(thalweg_context context, uint64_t device, thalweg_memory_range *out, size_t capacity,
                      size_t *len) {
    TRY(enter(context));
    NOT_NULL(len);
    if (capacity)
        NOT_NULL(out);
    FIND(DEVICE, object, device);
    size_t count = 0;
    pthread_mutex_lock(&all.lock);
    for (uint32_t index = 0; index < all.count; index++) {
        struct object *buffer = all.slots[index].object;
        if (!buffer || buffer->kind != BUFFER || buffer->device != device)
            continue;
        if (count < capacity)
            out[count] = (thalweg_memory_range){.block = index,
                                                .block_bytes = buffer->reserved,
                                                .bytes = buffer->reserved,
                                                .buffer = (uint64_t)all.slots[index].generation << 32 | index,
                                                .usage = THALWEG_MEMORY_USE_ALLOCATED};
        count++;
    }
    pthread_mutex_unlock(&all.lock);
    *len = count;
    return THALWEG_STATUS_OK;
}

static int32_t reset_peaks(thalweg_context context, uint64_t device) {
    TRY(enter(context));
    FIND(DEVICE, object, device);
    pthread_mutex_lock(&all.lock);
    object->figures.max_allocated = object->figures.max_reserved = object->figures.allocated;
    pthread_mutex_unlock(&all.lock);
    return THALWEG_STATUS_OK;
}

static int32_t set_limit(thalweg_context context, uint64_t device, uint64_t bytes) {
    TRY(enter(context));
    FIND(DEVICE, object, device);
    pthread_mutex_lock(&all.lock);
    object->figures.limit = bytes;
    pthread_mutex_unlock(&all.lock);
    return THALWEG_STATUS_OK;
}

static int32_t memory_info(thalweg_context context, uint64_t device, thalweg_memory_info *out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(DEVICE, object, device);
    *out = (thalweg_memory_info){.free = pages(_SC_AVPHYS_PAGES), .total = pages(_SC_PHYS_PAGES)};
    return THALWEG_STATUS_OK;
}

const thalweg_memory_table memory_table = {
    .alloc = alloc,
    .free = free_buffer,
    .import = import,
    .map = map,
    .size = size_of_buffer,
    .trim = trim,
    .statistics = statistics,
    .ranges = ranges,
    .reset_peaks = reset_peaks,
    .set_limit = set_limit,
    .info = memory_info,
};
