/* A plugin with nothing but what the loader asks for. The tests set NAME, ABI, ARCH, FEATURES, START,
 * ENTRY, TABLES, OFFSET, LAYOUT, DEVICES, PROPERTIES and END, and write the numbers behind HOLES into the file. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef NAME
#define NAME "good"
#endif
#ifndef ABI
#define ABI "2.0"
#endif
#ifndef ARCH
#if defined(__x86_64__)
#define ARCH "x86_64"
#elif defined(__aarch64__)
#define ARCH "aarch64"
#endif
#endif
#ifndef FEATURES
#define FEATURES ""
#endif
#ifndef START
#define START
#endif
#ifndef TABLES
#define TABLES 5
#endif
#ifndef OFFSET
#define OFFSET 0
#endif
#ifdef LAYOUT
#define LAYOUT_LINE "\nlayout=" LAYOUT
#else
#define LAYOUT_LINE ""
#endif
#ifndef PROPERTIES
#define PROPERTIES
#endif
#ifndef ENTRY
#define ENTRY
#endif
#ifndef END
#define END
#endif
#ifndef DEVICES
#define DEVICES *out = 1; return 0
#endif

#define DESC "name=" NAME "\nkind=cpu\nversion=0.1\nabi=" ABI "\narch=" ARCH "\nfeatures=" FEATURES LAYOUT_LINE "\n"

#ifndef NO_NOTE
__attribute__((section(".note.thalweg"), aligned(4), used)) static const struct {
    uint32_t name_size, size, type;
    char name[8], desc[(sizeof(DESC) + 2) / 4 * 4];
} note = {8, sizeof(DESC) - 1, 1, "thalweg", DESC};
#endif

typedef struct {
    char name[32], version[32], driver[128];
} Info;

static int32_t info(void *context, Info *out) {
    (void)context;
    memset(out, 0, sizeof *out);
    strcpy(out->name, NAME);
    strcpy(out->version, "0.1");
    return 0;
}

static int32_t device_count(void *context, uint32_t *out) {
    (void)context;
    (void)out;
    DEVICES;
}

static size_t last_error(void *context, uint8_t *buffer, size_t capacity) {
    static const char text[] = "libdriver.so.7 was not found (is the driver installed?)";
    (void)context;
    size_t len = sizeof text - 1;
    memcpy(buffer, text, len < capacity ? len : capacity);
    return len;
}

static int32_t shut_down(void *context) {
    (void)context;
    return 0;
}

/* Every table begins as the core table does, and has at most 16 functions. */
#define REST (void *)shut_down
static void *core[16] = {(void *)info, (void *)device_count, (void *)last_error, (void *)shut_down,
                         REST, REST, REST, REST, REST, REST, REST, REST, REST, REST, REST, REST};

static int32_t properties(void *context, uint32_t ordinal, void *out) {
    (void)context;
    (void)ordinal;
    (void)out;
    PROPERTIES;
    return 0;
}

/* The device table has `properties` in place of `info`. */
static void *device[16] = {(void *)properties, REST, REST, REST, REST, REST, REST, REST,
                           REST, REST, REST, REST, REST, REST, REST, REST};

/* The table and the number of the function that it lacks; no table has the number 0. */
static const volatile struct {
    char mark[8];
    uint32_t table, function;
} holes = {"HOLES", 0, 0};

static const void *query_interface(void *context, uint32_t table, uint32_t version) {
    static void *lacking[16];
    (void)context;
    if (version != 1 || table > TABLES)
        return 0;
    void **whole = table == 2 ? device : core;
    if (table == holes.table) {
        memcpy(lacking, whole, sizeof lacking);
        lacking[holes.function % 16] = 0;
        whole = lacking;
    }
    return (const char *)whole + OFFSET;
}

typedef struct {
    uint32_t abi, reserved;
    void *context;
    const void *(*query_interface)(void *, uint32_t, uint32_t);
} Api;

#ifndef NO_ENTRY
int32_t thalweg_backend(uint32_t abi, const void *host, Api *out) {
    (void)abi;
    (void)host;
    ENTRY;
#ifdef FAIL
    return 7;
#endif
    out->abi = 1 << 16;
    out->reserved = 0;
    out->context = core;
    out->query_interface = query_interface;
    return 0;
}
#endif

#ifdef NEEDS
int gone(void);
int call_gone(void) { return gone(); }
#endif

__attribute__((constructor)) static void start(void) { START; }

__attribute__((destructor)) static void end(void) { END; }
