/* Stand-in for CUPTI over the stand-in for libcuda: callbacks of calls and of nodes of graphs, and records in buffers.
 *
 * Layouts are those of the headers of CUDA 12.0 to 13.5. Like the library it has one client, and buffers come back from other threads.
 * STANDIN_CUPTI is its version (130500). */

#include "state.h"
#include <cstddef>
#include <ctime>

enum : Code { MAX_LIMIT_REACHED = 12, NOT_INITIALIZED = 15, INVALID_OPERATION = 7, MULTIPLE_SUBSCRIBERS = 39 };
enum : uint32_t { DRIVER_API = 1, RUNTIME_API = 2, RESOURCE = 3, NODE_CREATED = 13, NODE_CLONED = 20 };
enum : uint32_t { MEMCPY = 1, MEMSET = 2, CONCURRENT_KERNEL = 10, MEMCPY2 = 22, KIND_LIMIT = 64 };

extern "C" void standin_trace(const Tracer *next);
extern "C" uint64_t standin_node_number(const Node *node);

struct KernelRecord {
    uint32_t kind;
    char before[12];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    char launch[40];
    uint32_t call;
    int64_t grid;
    const char *name;
    char between[32];
    uint64_t node;
    uint32_t limit, graph;
    char after[88];
};
static_assert(sizeof(KernelRecord) == 248 && offsetof(KernelRecord, start) == 16, "as the headers");
static_assert(offsetof(KernelRecord, call) == 92 && offsetof(KernelRecord, node) == 144, "as the headers");
struct CopyRecord {
    uint32_t kind;
    char kinds[4];
    uint64_t bytes, start, end;
    uint32_t device, context, stream, call, runtime_call, pad;
    void *reserved;
    uint64_t node;
    uint32_t graph;
    char after[36];
};
static_assert(sizeof(CopyRecord) == 112 && offsetof(CopyRecord, start) == 16, "as the headers");
static_assert(offsetof(CopyRecord, call) == 44 && offsetof(CopyRecord, node) == 64, "as the headers");
struct SetRecord {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, call;
    uint16_t flags, memory;
    uint32_t pad;
    void *reserved;
    uint64_t node;
    uint32_t graph;
    char after[28];
};
static_assert(sizeof(SetRecord) == 104 && offsetof(SetRecord, start) == 16, "as the headers");
static_assert(offsetof(SetRecord, call) == 44 && offsetof(SetRecord, node) == 64, "as the headers");

struct CallbackData {
    uint32_t site;
    const char *name;
    const void *params;
    void *value;
    const char *symbol;
    void *context;
    uint32_t context_number;
    uint64_t *data;
    uint32_t call;
};
static_assert(offsetof(CallbackData, call) == 64, "as the headers");
struct GraphData {
    void *graph, *original_graph;
    Node *node, *original;
    uint32_t type;
    void *dependency, *executable;
};
struct ResourceData {
    void *context, *handle;
    GraphData *graph;
};

typedef void (*Callback)(void *data, uint32_t domain, uint32_t id, const void *what);
static std::mutex lock;
static std::atomic<Callback> callback{nullptr};
static void *callback_data;
static std::atomic<bool> domains[4], nodes_made, nodes_copied, kinds[KIND_LIMIT];
static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static std::atomic<uint64_t (*)()> clock_of_client{nullptr};
static struct Buffer {
    uint8_t *at;
    size_t size, used;
} buffer;
static std::atomic<size_t> dropped{0}, to_drop{0};
static std::atomic<bool> unannounced{false};
static std::map<std::string, Code> refusals;

/* Lets a function of CUPTI return a code from now on; 0 ends that. */
EXPORT void standin_cupti_refuse(const char *function, Code code) {
    std::lock_guard<std::mutex> guard(lock);
    refusals[function] = code;
}
/* Lets the next records be dropped. */
EXPORT void standin_cupti_drop(size_t count) { to_drop = count; }
/* Lets records name nodes of which no callback told. */
EXPORT void standin_cupti_unannounced(int on) { unannounced = on != 0; }
/* Whether a client is there, and kinds that are enabled. */
EXPORT int standin_cupti_active() {
    int active = callback.load() != nullptr;
    for (auto &kind : kinds)
        active += kind;
    return active;
}
static Code refused(const char *function) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = refusals.find(function);
    return found == refusals.end() ? (Code)SUCCESS : found->second;
}
#define ALLOWED                                                                                                        \
    if (Code code = refused(__func__))                                                                                 \
    return code

static void call_back(uint32_t domain, uint32_t id, const void *what) {
    if (Callback to = callback)
        to(callback_data, domain, id, what);
}
static void call(const char *name, uint32_t number, uint32_t site) {
    /* Libraries over the driver are called through the runtime. */
    const uint32_t domain = strncmp(name, "standin", 7) == 0 ? RUNTIME_API : DRIVER_API;
    if (!domains[domain])
        return;
    const CallbackData data = {site, name, nullptr, nullptr, nullptr, nullptr, 0, nullptr, number};
    call_back(domain, 1, &data);
}
static uint32_t enter(const char *name) {
    static std::atomic<uint32_t> last{0};
    const uint32_t number = ++last;
    call(name, number, 0);
    return number;
}
static void leave(const char *name, uint32_t number) { call(name, number, 1); }

static uint64_t time_of_client() {
    if (auto clock = clock_of_client.load())
        return clock();
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void deliver(Buffer full) {
    if (full.at)
        complete(nullptr, 0, full.at, full.size, full.used);
}
template <class Record> static void append(const Record &record) {
    Buffer full = {nullptr, 0, 0};
    {
        std::lock_guard<std::mutex> guard(lock);
        size_t drop = to_drop;
        if (drop > 0) {
            to_drop = drop - 1;
            dropped++;
            return;
        }
        if (buffer.at && buffer.used + sizeof(Record) > buffer.size) {
            full = buffer;
            buffer = {nullptr, 0, 0};
        }
        size_t most = 0;
        if (!buffer.at)
            request(&buffer.at, &buffer.size, &most);
        if (buffer.at) {
            memcpy(buffer.at + buffer.used, &record, sizeof(Record));
            buffer.used += sizeof(Record);
        } else {
            dropped++;
        }
    }
    deliver(full);
}
static void ran(Sort sort, uint32_t number, uint64_t node, uint64_t start, uint64_t end) {
    if (node && unannounced)
        node += uint64_t(1) << 40;
    const uint32_t kind = sort == Sort::Copy ? MEMCPY : sort == Sort::Set ? MEMSET : CONCURRENT_KERNEL;
    if (!kinds[kind])
        return;
    if (sort == Sort::Copy) {
        CopyRecord record = {};
        record.kind = kind, record.start = start, record.end = end, record.call = number, record.node = node;
        append(record);
    } else if (sort == Sort::Set) {
        SetRecord record = {};
        record.kind = kind, record.start = start, record.end = end, record.call = number, record.node = node;
        append(record);
    } else {
        KernelRecord record = {};
        record.kind = kind, record.start = start, record.end = end, record.call = number, record.node = node;
        append(record);
    }
}
static void node(Node *made, Node *original, Sort sort) {
    if (!(original ? nodes_copied : nodes_made))
        return;
    const uint32_t type = sort == Sort::Kernel ? 0 : sort == Sort::Copy ? 1 : sort == Sort::Set ? 2 : 4;
    GraphData graph = {nullptr, nullptr, made, original, type, nullptr, nullptr};
    const ResourceData data = {nullptr, nullptr, &graph};
    call_back(RESOURCE, original ? NODE_CLONED : NODE_CREATED, &data);
}
static const Tracer TRACER = {enter, leave, time_of_client, ran, node};

EXPORT Code cuptiGetVersion(uint32_t *out) {
    ALLOWED;
    *out = (uint32_t)(getenv("STANDIN_CUPTI") ? atol(getenv("STANDIN_CUPTI")) : 130500);
    return SUCCESS;
}
EXPORT Code cuptiGetResultString(Code code, const char **out) {
    *out = code == MULTIPLE_SUBSCRIBERS ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
           : code == 35                 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                                        : nullptr;
    return *out ? (Code)SUCCESS : (Code)INVALID_VALUE;
}
EXPORT Code cuptiSubscribe(void **out, Callback next, void *data) {
    ALLOWED;
    if (callback)
        return MULTIPLE_SUBSCRIBERS;
    callback_data = data;
    callback = next;
    *out = &callback;
    standin_trace(&TRACER);
    return SUCCESS;
}
EXPORT Code cuptiUnsubscribe(void *subscriber) {
    ALLOWED;
    if (subscriber != &callback || !callback)
        return INVALID_VALUE;
    standin_trace(nullptr);
    for (auto &domain : domains)
        domain = false;
    nodes_made = nodes_copied = false;
    callback = nullptr;
    return SUCCESS;
}
EXPORT Code cuptiEnableDomain(uint32_t on, void *subscriber, uint32_t domain) {
    ALLOWED;
    if (subscriber != &callback || !callback || domain > RESOURCE)
        return INVALID_VALUE;
    domains[domain] = on != 0;
    return SUCCESS;
}
EXPORT Code cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t id) {
    ALLOWED;
    if (subscriber != &callback || !callback || domain != RESOURCE)
        return INVALID_VALUE;
    (id == NODE_CREATED ? nodes_made : nodes_copied) = on != 0;
    return SUCCESS;
}
EXPORT Code cuptiActivityRegisterCallbacks(decltype(request) on_request, decltype(complete) on_complete) {
    ALLOWED;
    request = on_request;
    complete = on_complete;
    return SUCCESS;
}
EXPORT Code cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
    ALLOWED;
    for (auto &kind : kinds)
        if (kind)
            return INVALID_OPERATION;
    clock_of_client = clock;
    return SUCCESS;
}
EXPORT Code cuptiActivityEnable(uint32_t kind) {
    ALLOWED;
    if (kind >= KIND_LIMIT || !request)
        return INVALID_OPERATION;
    kinds[kind] = true;
    return SUCCESS;
}
EXPORT Code cuptiActivityDisable(uint32_t kind) {
    ALLOWED;
    if (kind >= KIND_LIMIT)
        return INVALID_VALUE;
    kinds[kind] = false;
    return SUCCESS;
}
EXPORT Code cuptiActivityFlushAll(uint32_t) {
    ALLOWED;
    if (!complete)
        return INVALID_OPERATION;
    Buffer full;
    {
        std::lock_guard<std::mutex> guard(lock);
        full = buffer;
        buffer = {nullptr, 0, 0};
    }
    /* The library's own thread hands buffers back. */
    std::thread(deliver, full).join();
    return SUCCESS;
}
EXPORT Code cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint8_t **record) {
    size_t at = 0;
    if (*record) {
        uint32_t kind = *(const uint32_t *)*record;
        size_t size = kind == MEMCPY ? sizeof(CopyRecord) : kind == MEMSET ? sizeof(SetRecord) : sizeof(KernelRecord);
        at = (size_t)(*record - from) + size;
    }
    if (at >= valid)
        return MAX_LIMIT_REACHED;
    *record = from + at;
    return SUCCESS;
}
EXPORT Code cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *out) {
    *out = dropped.exchange(0);
    return SUCCESS;
}
EXPORT Code cuptiGetGraphNodeId(const Node *of, uint64_t *out) {
    *out = standin_node_number(of);
    return SUCCESS;
}
