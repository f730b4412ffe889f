/* The stream table. Work runs inside the call that submits it, so a stream is always idle. */
#include "objects.h"

static int32_t create_stream(thalweg_context context, const thalweg_stream_args *args, uint64_t *out) {
    TRY(enter(context));
    NOT_NULL(args);
    NOT_NULL(out);
    FIND(DEVICE, device, args->device);
    if (args->priority != 0)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "stream: priority %d is not in 0..=0", args->priority);
    return insert((struct object){.kind = STREAM, .device = args->device}, out);
}

static int32_t synchronize(thalweg_context context, uint64_t stream) {
    TRY(enter(context));
    FIND(STREAM, object, stream);
    int32_t code = atomic_exchange(&object->error, 0);
    return code ? fail(THALWEG_STATUS_LAUNCH_FAILED, "the host's callback returned %d", code) : THALWEG_STATUS_OK;
}

static int32_t destroy_stream(thalweg_context context, uint64_t stream) {
    TRY(enter(context));
    FIND(STREAM, object, stream);
    int32_t status = synchronize(context, stream);
    TRY(destroy(STREAM, stream));
    return status;
}

static int32_t query(thalweg_context context, uint64_t stream, uint32_t *out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(STREAM, object, stream);
    *out = 1;
    return THALWEG_STATUS_OK;
}

/* One end of a copy: its first byte, and the buffer it lies in or NULL. */
struct end {
    uint8_t *first;
    const struct object *buffer;
};

static int32_t resolve(const thalweg_place *place, const char *which, uint64_t reach, struct end *out) {
    if (place->buffer == 0) {
        if (!place->host)
            return fail(THALWEG_STATUS_INVALID_ARGUMENT, "copy: the %s is neither a buffer nor host memory", which);
        *out = (struct end){(uint8_t *)place->host + place->offset, NULL};
        return THALWEG_STATUS_OK;
    }
    FIND(BUFFER, buffer, place->buffer);
    if (reach > buffer->bytes || place->offset > buffer->bytes - reach)
        return fail(THALWEG_STATUS_OUT_OF_BOUNDS, "copy: the %s reaches %llu bytes from %llu of a buffer of %llu bytes",
                    which, (unsigned long long)reach, (unsigned long long)place->offset,
                    (unsigned long long)buffer->bytes);
    *out = (struct end){buffer->memory + place->offset, buffer};
    return THALWEG_STATUS_OK;
}

/* Bytes from the first to the last of `rows` rows. */
static int32_t reach_of(const thalweg_copy *copy, uint64_t pitch, uint64_t *out) {
    uint64_t gaps = copy->rows - 1;
    if (gaps > 0 && pitch < copy->width)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "copy: rows of %llu bytes are %llu bytes apart",
                    (unsigned long long)copy->width, (unsigned long long)pitch);
    if (copy->width > INT64_MAX || (gaps > 0 && gaps > (INT64_MAX - copy->width) / pitch))
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "copy: more than 2^63 bytes");
    *out = gaps > 0 ? gaps * pitch + copy->width : copy->width;
    return THALWEG_STATUS_OK;
}

/* Checks a copy and, when `run` is set, does it. */
static int32_t copy_rows(const struct object *stream, const thalweg_copy *copy, int run) {
    NOT_NULL(copy);
    if (copy->width == 0 || copy->rows == 0)
        return THALWEG_STATUS_OK;
    uint64_t written, read;
    struct end dst, src;
    TRY(reach_of(copy, copy->dst.pitch, &written));
    TRY(reach_of(copy, copy->src.pitch, &read));
    TRY(resolve(&copy->dst, "destination", written, &dst));
    TRY(resolve(&copy->src, "source", read, &src));
    if (!dst.buffer && !src.buffer)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "copy: neither end is a buffer");
    if (dst.buffer == src.buffer && dst.first < src.first + read && src.first < dst.first + written)
        return fail(THALWEG_STATUS_OVERLAP, "copy: source and destination overlap");
    if (!(dst.buffer && dst.buffer->device == stream->device) && !(src.buffer && src.buffer->device == stream->device))
        return fail(THALWEG_STATUS_INVALID_HANDLE, "copy: no end lies on the stream's device");
    for (uint64_t row = 0; run && row < copy->rows; row++)
        memcpy(dst.first + row * copy->dst.pitch, src.first + row * copy->src.pitch, copy->width);
    return THALWEG_STATUS_OK;
}

/* Checks a fill and, when `run` is set, does it. */
static int32_t fill_range(const struct object *stream, const thalweg_fill *fill, int run) {
    NOT_NULL(fill);
    uint64_t width = fill->pattern_bytes;
    if (width != 1 && width != 2 && width != 4 && width != 8)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "fill: a pattern of %u bytes; it has 1, 2, 4 or 8",
                    fill->pattern_bytes);
    if (fill->offset % width || fill->bytes % width)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT,
                    "fill: offset or length is not a multiple of the pattern's %u bytes", fill->pattern_bytes);
    FIND(BUFFER, buffer, fill->buffer);
    if (buffer->device != stream->device)
        return fail(THALWEG_STATUS_INVALID_HANDLE, "fill: the buffer lies on another device");
    if (fill->bytes > buffer->bytes || fill->offset > buffer->bytes - fill->bytes)
        return fail(THALWEG_STATUS_OUT_OF_BOUNDS, "fill: %llu bytes at %llu of a buffer of %llu bytes",
                    (unsigned long long)fill->bytes, (unsigned long long)fill->offset,
                    (unsigned long long)buffer->bytes);
    for (uint64_t i = 0; run && i < fill->bytes; i++)
        buffer->memory[fill->offset + i] = (uint8_t)(fill->pattern >> (i % width * 8));
    return THALWEG_STATUS_OK;
}

/* No kernel was ever compiled, so no handle names one. */
static int32_t no_kernel(const thalweg_launch *launch) {
    NOT_NULL(launch);
    return fail(THALWEG_STATUS_INVALID_HANDLE, "no kernel has the handle %#llx; " NAME " compiles none",
                (unsigned long long)launch->kernel);
}

static int32_t packet(const struct object *stream, const thalweg_packet *packet, int run) {
    switch (packet->kind) {
    case THALWEG_PACKET_KIND_LAUNCH:
        return no_kernel(packet->launch);
    case THALWEG_PACKET_KIND_COPY:
        return copy_rows(stream, packet->copy, run);
    case THALWEG_PACKET_KIND_FILL:
        return fill_range(stream, packet->fill, run);
    default:
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "unknown packet kind %u", packet->kind);
    }
}

static int32_t launch(thalweg_context context, uint64_t stream, const thalweg_launch *launch, const thalweg_tag *tag) {
    (void)tag;
    TRY(enter(context));
    FIND(STREAM, object, stream);
    return no_kernel(launch);
}

static int32_t submit(thalweg_context context, uint64_t stream, const thalweg_packet *packets, size_t count) {
    TRY(enter(context));
    FIND(STREAM, object, stream);
    if (count == 0)
        return THALWEG_STATUS_OK;
    NOT_NULL(packets);
    for (int run = 0; run <= 1; run++)
        for (size_t i = 0; i < count; i++)
            TRY(packet(object, &packets[i], run));
    return THALWEG_STATUS_OK;
}

static int32_t wait_event(thalweg_context context, const thalweg_wait_event_args *args) {
    TRY(enter(context));
    NOT_NULL(args);
    FIND(STREAM, stream, args->stream);
    FIND(EVENT, event, args->event);
    if (stream->device != event->device)
        return fail(THALWEG_STATUS_INVALID_HANDLE, "wait_event: stream and event belong to different devices");
    return THALWEG_STATUS_OK;
}

static int32_t callback(thalweg_context context, const thalweg_callback_args *args) {
    TRY(enter(context));
    NOT_NULL(args);
    FIND(STREAM, stream, args->stream);
    NOT_NULL(args->function);
    int32_t none = 0, code = args->function(args->data);
    if (code != 0)
        atomic_compare_exchange_strong(&stream->error, &none, code);
    return THALWEG_STATUS_OK;
}

const thalweg_stream_table stream_table = {
    .create = create_stream,
    .destroy = destroy_stream,
    .launch = launch,
    .submit = submit,
    .query = query,
    .wait_event = wait_event,
    .callback = callback,
    .synchronize = synchronize,
};
