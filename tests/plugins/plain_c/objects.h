/* What the files of this backend share: errors, objects, handles. */
#ifndef PLAIN_OBJECTS_H
#define PLAIN_OBJECTS_H

#define _DEFAULT_SOURCE /* for sysconf's page counts */
#include "thalweg.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME "plainc"
#define ALIGNMENT 512u

/* Remembers a text for `last_error` on this thread and returns `status`. */
__attribute__((format(printf, 2, 3))) int32_t fail(int32_t status, const char *format, ...);
size_t last_error(thalweg_context context, uint8_t *buffer, size_t capacity);

/* Returns the status of a call that failed. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int32_t status_ = (call);                                                                  \
        if (status_ != THALWEG_STATUS_OK)                                                          \
            return status_;                                                                        \
    } while (0)

#define NOT_NULL(pointer)                                                                          \
    TRY((pointer) != NULL ? 0                                                                      \
                          : fail(THALWEG_STATUS_INVALID_ARGUMENT, "%s: `" #pointer "` is null", __func__))

/* Declares `name` as what `handle` names, or returns the status. */
#define FIND(kind, name, handle)                                                                   \
    struct object *name;                                                                           \
    TRY(find(kind, handle, &name))

enum kind { DEVICE, BUFFER, STREAM, EVENT };

struct object {
    enum kind kind;
    uint64_t device; /* handle of the device it belongs to */
    /* device */
    thalweg_memory_statistics figures;
    /* buffer */
    uint8_t *memory;
    uint64_t bytes, reserved;
    /* stream: what a callback returned, until it is reported */
    _Atomic int32_t error;
    /* event: time of the last record, 0 before the first */
    _Atomic int64_t recorded;
    uint32_t timing;
};

struct slot {
    struct object *object;
    uint32_t generation;
};

/* The lock guards the table and the figures. Objects themselves need none: the contract forbids
 * destroying one while another call uses it. */
struct objects {
    pthread_mutex_t lock;
    struct slot *slots;
    uint32_t count, capacity;
    uint32_t *free, free_count;
    _Atomic int down;
};
extern struct objects all;

/* Refuses a foreign context, and every call after the shutdown. */
int32_t enter(thalweg_context context);
int32_t find(enum kind kind, uint64_t handle, struct object **out);
int32_t insert(struct object object, uint64_t *out);
int32_t destroy(enum kind kind, uint64_t handle);
/* Takes an object out of the table and frees it. The lock is held. */
void drop(struct slot *slot);

/* Pages of the system times their size. */
uint64_t pages(int which);

extern const thalweg_device_table device_table;
extern const thalweg_memory_table memory_table;
extern const thalweg_stream_table stream_table;
extern const thalweg_event_table event_table;

#endif
