/* A layer that lies, for tests of the layer `validate`: what stands over it is given wrong answers of a backend that is sound.
 * The key `layer.liar` names the lie. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg.h"

THALWEG_MANIFEST("name=liar\nkind=layer\nversion=1.0.0");

/* The layer over one backend; tests load one. */
static thalweg_backend_api below;
static const thalweg_core_table *core_below;
static const thalweg_memory_table *memory_below;
static const thalweg_stream_table *stream_below;
static const thalweg_event_table *event_below;
static const thalweg_program_table *program_below;
static const thalweg_profile_table *profile_below;
static thalweg_core_table core;
static thalweg_memory_table memory;
static thalweg_stream_table stream;
static thalweg_event_table event;
static thalweg_program_table program;
static thalweg_profile_table profile;
static char lie[32];

/* What was given out first, and whether the last error is a lie. */
static _Atomic uint64_t first;
static _Atomic int said;

static int is(const char *name) {
    return strcmp(lie, name) == 0;
}

static size_t last_error(thalweg_context context, uint8_t *buffer, size_t capacity) {
    static const char text[] = "the liar says so";
    if (!said)
        return core_below->last_error(context, buffer, capacity);
    if (is("silent"))
        return 0;
    if (buffer)
        memcpy(buffer, text, capacity < sizeof text - 1 ? capacity : sizeof text - 1);
    return sizeof text - 1;
}

static int32_t alloc(thalweg_context context, const thalweg_alloc_args *args, uint64_t *out) {
    said = 1;
    if (is("status"))
        return 77;
    if (is("silent"))
        return THALWEG_STATUS_OUT_OF_MEMORY;
    if (is("failure")) {
        *out = 1;
        return THALWEG_STATUS_OUT_OF_MEMORY;
    }
    said = 0;
    uint64_t handle = 0;
    int32_t code = memory_below->alloc(context, args, &handle);
    uint64_t none = 0;
    atomic_compare_exchange_strong(&first, &none, handle);
    if (is("nothing"))
        return code;
    if (code == 0)
        *out = is("twice") ? first : is("zero") ? 0 : handle;
    return code;
}

static int32_t release(thalweg_context context, uint64_t buffer) {
    int32_t code = memory_below->free(context, buffer);
    said = is("free");
    return said ? THALWEG_STATUS_INTERNAL : code;
}

static int32_t map(thalweg_context context, uint64_t buffer, void **out) {
    said = 0;
    int32_t code = memory_below->map(context, is("map") ? first : buffer, out);
    if (code == 0 && is("align"))
        *out = (char *)*out + 1;
    return code;
}

static int32_t size(thalweg_context context, uint64_t buffer, uint64_t *out) {
    said = 0;
    int32_t code = memory_below->size(context, buffer, out);
    if (code == 0 && is("size"))
        *out += 1;
    return code;
}

static int32_t statistics(thalweg_context context, uint64_t device, thalweg_memory_statistics *out) {
    said = 0;
    int32_t code = memory_below->statistics(context, device, out);
    if (code == 0 && is("live"))
        out->live = 0;
    if (code == 0 && is("allocated"))
        out->allocated = 0;
    if (code == 0 && is("frees"))
        out->frees = out->allocations + 1;
    return code;
}

static int32_t submit(thalweg_context context, uint64_t handle, const thalweg_packet *packets, size_t count) {
    said = 0;
    if (!is("overrun") || count != 1 || packets->kind != THALWEG_PACKET_KIND_FILL || packets->fill->offset != 0)
        return stream_below->submit(context, handle, packets, count);
    thalweg_fill fill = *packets->fill;
    thalweg_packet packet = *packets;
    fill.bytes += 8;
    packet.fill = &fill;
    return stream_below->submit(context, handle, &packet, 1);
}

static int32_t query_stream(thalweg_context context, uint64_t handle, uint32_t *out) {
    said = 0;
    int32_t code = stream_below->query(context, handle, out);
    if (code == 0 && is("busy"))
        *out = 0;
    if (code == 0 && is("answer"))
        *out = 7;
    return code;
}

static int32_t query_event(thalweg_context context, uint64_t handle, uint32_t *out) {
    said = 0;
    int32_t code = event_below->query(context, handle, out);
    if (code == 0 && is("event"))
        *out = 0;
    return code;
}

static int32_t elapsed(thalweg_context context, const thalweg_elapsed_args *args, int64_t *out) {
    said = 0;
    int32_t code = event_below->elapsed(context, args, out);
    if (code == 0 && is("elapsed"))
        *out = -1 - *out;
    return code;
}

static int32_t run(thalweg_context context, const thalweg_program_run_args *args) {
    said = 0;
    if (!is("outputs"))
        return program_below->run(context, args);
    uint64_t handles[8];
    thalweg_program_run_args own = *args;
    own.outputs = handles;
    return program_below->run(context, &own);
}

static int32_t drain(thalweg_context context, const thalweg_profile_drain_args *args) {
    said = 0;
    int32_t code = profile_below->drain(context, args);
    if (code == 0 && is("drain"))
        *args->written = args->capacity + 1;
    for (size_t i = 0; code == 0 && is("record") && i < *args->written; i++)
        args->out[i].start_ns = args->out[i].end_ns + 1;
    return code;
}

static const void *query_interface(thalweg_context context, uint32_t table, uint32_t version) {
    const void *answer = below.query_interface(context, table, version);
    if (!answer || version != 1)
        return answer;
    switch (table) {
    case THALWEG_TABLE_ID_CORE:
        return &core;
    case THALWEG_TABLE_ID_MEMORY:
        return &memory;
    case THALWEG_TABLE_ID_STREAM:
        return &stream;
    case THALWEG_TABLE_ID_EVENT:
        return &event;
    case THALWEG_TABLE_ID_PROGRAM:
        return &program;
    case THALWEG_TABLE_ID_PROFILE:
        return &profile;
    default:
        return answer;
    }
}

int32_t thalweg_layer(uint32_t abi, const thalweg_host_api *host, const thalweg_backend_api *next,
                      thalweg_backend_api *out) {
    if (!host || !next || !out || abi >> 16 != THALWEG_ABI_MAJOR)
        return THALWEG_STATUS_INVALID_ARGUMENT;
    size_t length = 0;
    thalweg_str key = {(const uint8_t *)"layer.liar", strlen("layer.liar")};
    host->config(host->context, key, (uint8_t *)lie, sizeof lie - 1, &length);
    below = *next;
    core_below = next->query_interface(next->context, THALWEG_TABLE_ID_CORE, 1);
    memory_below = next->query_interface(next->context, THALWEG_TABLE_ID_MEMORY, 1);
    stream_below = next->query_interface(next->context, THALWEG_TABLE_ID_STREAM, 1);
    event_below = next->query_interface(next->context, THALWEG_TABLE_ID_EVENT, 1);
    program_below = next->query_interface(next->context, THALWEG_TABLE_ID_PROGRAM, 1);
    profile_below = next->query_interface(next->context, THALWEG_TABLE_ID_PROFILE, 1);
    core = *core_below;
    core.last_error = last_error;
    memory = *memory_below;
    memory.alloc = alloc;
    memory.free = release;
    memory.map = map;
    memory.size = size;
    memory.statistics = statistics;
    stream = *stream_below;
    stream.query = query_stream;
    stream.submit = submit;
    event = *event_below;
    event.query = query_event;
    event.elapsed = elapsed;
    if (program_below) {
        program = *program_below;
        program.run = run;
    }
    if (profile_below) {
        profile = *profile_below;
        profile.drain = drain;
    }
    *out = *next;
    out->query_interface = query_interface;
    return THALWEG_STATUS_OK;
}
