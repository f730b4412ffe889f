/* A layer in plain C: it refuses allocations of more bytes than the key `layer.quota` says. An example for authors in C; the
 * contract is thalweg.h. It knows the core and the memory table, and passes every other on. From the root of the project:
 *
 *   cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden -Ihal-api/include tests/plugins/quota_c/quota.c \
 *      -o libthalweg_layer_quota.so */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg.h"

#ifndef NAME
#define NAME "quota"
#endif

THALWEG_MANIFEST("name=" NAME "\nkind=layer\nversion=1.0.0");

/* The layer over one backend, found by the backend's context. */
struct place {
    struct place *earlier;
    thalweg_backend_api next;
    const thalweg_core_table *next_core;
    const thalweg_memory_table *next_memory;
    thalweg_core_table core;
    thalweg_memory_table memory;
    uint64_t most;
};

static _Atomic(struct place *) places;

static struct place *over(thalweg_context context) {
    struct place *place = atomic_load(&places);
    while (place && place->next.context != context)
        place = place->earlier;
    return place;
}

/* The text of this thread's last refusal; empty when the last error is the backend's. */
static _Thread_local char said[160];

static size_t last_error(thalweg_context context, uint8_t *buffer, size_t capacity) {
    struct place *place = over(context);
    size_t length = strlen(said);
    if (length == 0)
        return place ? place->next_core->last_error(context, buffer, capacity) : 0;
    if (buffer)
        memcpy(buffer, said, length < capacity ? length : capacity);
    /* Once: functions that are not this layer's do not come by here before they fail. */
    if (buffer && length <= capacity)
        said[0] = 0;
    return length;
}

static int32_t alloc(thalweg_context context, const thalweg_alloc_args *args, uint64_t *out) {
    struct place *place = over(context);
    said[0] = 0;
    if (!place)
        return THALWEG_STATUS_INVALID_ARGUMENT;
    if (args && args->bytes > place->most) {
        snprintf(said, sizeof said, "%.*s: %llu bytes, the layer " NAME " allows %llu",
                 args->tag ? (int)args->tag->op.len : 10, args->tag ? (const char *)args->tag->op.ptr : "allocation",
                 (unsigned long long)args->bytes, (unsigned long long)place->most);
        return THALWEG_STATUS_OUT_OF_MEMORY;
    }
    return place->next_memory->alloc(context, args, out);
}

static const void *query_interface(thalweg_context context, uint32_t table, uint32_t version) {
    struct place *place = over(context);
    if (!place)
        return NULL;
    if (version == 1 && table == THALWEG_TABLE_ID_CORE)
        return &place->core;
    if (version == 1 && table == THALWEG_TABLE_ID_MEMORY)
        return &place->memory;
    return place->next.query_interface(context, table, version);
}

static int32_t refuse(const thalweg_host_api *host, const char *message) {
    thalweg_log_record record = {
        .level = THALWEG_LOG_LEVEL_ERROR,
        .target = {(const uint8_t *)NAME, strlen(NAME)},
        .message = {(const uint8_t *)message, strlen(message)},
    };
    host->log(host->context, &record);
    return THALWEG_STATUS_INVALID_ARGUMENT;
}

int32_t thalweg_layer(uint32_t abi, const thalweg_host_api *host, const thalweg_backend_api *next,
                      thalweg_backend_api *out) {
    if (!host || !next || !out || abi >> 16 != THALWEG_ABI_MAJOR)
        return THALWEG_STATUS_INVALID_ARGUMENT;
    if (!next->context || over(next->context))
        return refuse(host, "the backend's context is null or another backend's");
    char text[32] = "";
    size_t length = 0;
    thalweg_str key = {(const uint8_t *)"layer." NAME, strlen("layer." NAME)};
    if (host->config(host->context, key, (uint8_t *)text, sizeof text - 1, &length) != 0)
        return refuse(host, "layer." NAME " is not set; it is a number of bytes");
    char *end = text;
    uint64_t most = strtoull(text, &end, 10);
    if (end == text || *end)
        return refuse(host, "layer." NAME " is no number of bytes");
    struct place *place = calloc(1, sizeof *place);
    if (!place)
        return THALWEG_STATUS_OUT_OF_MEMORY;
    place->next = *next;
    place->next_core = next->query_interface(next->context, THALWEG_TABLE_ID_CORE, 1);
    place->next_memory = next->query_interface(next->context, THALWEG_TABLE_ID_MEMORY, 1);
    place->core = *place->next_core;
    place->core.last_error = last_error;
    place->memory = *place->next_memory;
    place->memory.alloc = alloc;
    place->most = most;
    place->earlier = atomic_load(&places);
    while (!atomic_compare_exchange_weak(&places, &place->earlier, place))
        ;
    *out = *next;
    out->query_interface = query_interface;
    return THALWEG_STATUS_OK;
}
