/* The event table. A record is reached at once; what it keeps is the time. */
#include "objects.h"

#include <time.h>

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int32_t create_event(thalweg_context context, const thalweg_event_args *args, uint64_t *out) {
    TRY(enter(context));
    NOT_NULL(args);
    NOT_NULL(out);
    FIND(DEVICE, device, args->device);
    if (args->timing > 1)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "event: timing is 0 or 1, not %u", args->timing);
    return insert((struct object){.kind = EVENT, .device = args->device, .timing = args->timing}, out);
}

static int32_t destroy_event(thalweg_context context, uint64_t event) {
    TRY(enter(context));
    return destroy(EVENT, event);
}

static int32_t record(thalweg_context context, const thalweg_event_stream_args *args) {
    TRY(enter(context));
    NOT_NULL(args);
    FIND(EVENT, event, args->event);
    FIND(STREAM, stream, args->stream);
    if (event->device != stream->device)
        return fail(THALWEG_STATUS_INVALID_HANDLE, "record: event and stream belong to different devices");
    event->recorded = now();
    return THALWEG_STATUS_OK;
}

static int32_t query(thalweg_context context, uint64_t event, uint32_t *out) {
    TRY(enter(context));
    NOT_NULL(out);
    FIND(EVENT, object, event);
    *out = 1;
    return THALWEG_STATUS_OK;
}

static int32_t wait(thalweg_context context, const thalweg_event_wait_args *args) {
    TRY(enter(context));
    NOT_NULL(args);
    FIND(EVENT, event, args->event);
    return THALWEG_STATUS_OK;
}

static int32_t elapsed(thalweg_context context, const thalweg_elapsed_args *args, int64_t *out) {
    TRY(enter(context));
    NOT_NULL(args);
    NOT_NULL(out);
    FIND(EVENT, start, args->start);
    FIND(EVENT, end, args->end);
    if (start->device != end->device)
        return fail(THALWEG_STATUS_INVALID_HANDLE, "elapsed: the events belong to different devices");
    if (!start->timing || !end->timing)
        return fail(THALWEG_STATUS_UNSUPPORTED, "elapsed: an event was created without timing");
    int64_t from = start->recorded, to = end->recorded;
    if (from == 0 || to == 0)
        return fail(THALWEG_STATUS_INVALID_ARGUMENT, "elapsed: an event was never recorded");
    *out = to - from;
    return THALWEG_STATUS_OK;
}

const thalweg_event_table event_table = {
    .create = create_event,
    .destroy = destroy_event,
    .record = record,
    .query = query,
    .wait = wait,
    .elapsed = elapsed,
};
