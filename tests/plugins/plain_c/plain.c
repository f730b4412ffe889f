/* A backend in plain C: one device that is host memory, with buffers, copies, streams and events, and
 * no kernels. An example for authors in C; the contract is thalweg.h. From the root of the project:
 *
 *   cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden -pthread -Ihal-api/include \
 *      tests/plugins/plain_c/[a-z]*.c -o libthalweg_plainc.so */
#include "objects.h"

#define VERSION "1.0.0"

/* The host reads it before any of this code runs. */
THALWEG_MANIFEST("name=" NAME "\nkind=cpu\nversion=" VERSION);

static int32_t info(thalweg_context context, thalweg_backend_info *out) {
    TRY(enter(context));
    NOT_NULL(out);
    *out = (thalweg_backend_info){.name = NAME, .version = VERSION, .driver = ""};
    return THALWEG_STATUS_OK;
}

static int32_t device_count(thalweg_context context, uint32_t *out) {
    TRY(enter(context));
    NOT_NULL(out);
    *out = 1;
    return THALWEG_STATUS_OK;
}

static int32_t shut_down(thalweg_context context) {
    TRY(enter(context));
    pthread_mutex_lock(&all.lock);
    for (uint32_t i = 0; i < all.count; i++)
        if (all.slots[i].object)
            drop(&all.slots[i]);
    all.down = 1;
    pthread_mutex_unlock(&all.lock);
    return THALWEG_STATUS_OK;
}

static const thalweg_core_table core_table = {
    .info = info,
    .device_count = device_count,
    .last_error = last_error,
    .shutdown = shut_down,
};

static const void *query_interface(thalweg_context context, uint32_t table, uint32_t version) {
    (void)context;
    if (version != 1)
        return NULL;
    switch (table) {
    case THALWEG_TABLE_ID_CORE:
        return &core_table;
    case THALWEG_TABLE_ID_DEVICE:
        return &device_table;
    case THALWEG_TABLE_ID_MEMORY:
        return &memory_table;
    case THALWEG_TABLE_ID_STREAM:
        return &stream_table;
    case THALWEG_TABLE_ID_EVENT:
        return &event_table;
    default: /* no kernels, no programs, and what later versions add */
        return NULL;
    }
}

static void log_error(const thalweg_host_api *host, const char *message) {
    thalweg_log_record record = {
        .level = THALWEG_LOG_LEVEL_ERROR,
        .target = {(const uint8_t *)NAME, strlen(NAME)},
        .message = {(const uint8_t *)message, strlen(message)},
    };
    host->log(host->context, &record);
}

int32_t thalweg_backend(uint32_t abi, const thalweg_host_api *host, thalweg_backend_api *out) {
    NOT_NULL(host);
    if (abi >> 16 != THALWEG_ABI_MAJOR || !out) {
        log_error(host, out ? "built against thalweg-hal 2.x, this program speaks another version" : "`out` is null");
        return out ? THALWEG_STATUS_INCOMPATIBLE_ABI : THALWEG_STATUS_INVALID_ARGUMENT;
    }
    *out = (thalweg_backend_api){
        .abi = THALWEG_ABI_VERSION,
        .context = &all,
        .query_interface = query_interface,
    };
    return THALWEG_STATUS_OK;
}
