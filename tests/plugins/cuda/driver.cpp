/* Stand-in for libcuda: driver, devices, contexts. */

#include "state.h"
#include <cstdio>

std::atomic<int> live[KINDS];
thread_local Context *current;

enum { MOST = 16 };
static Context contexts[MOST];
static std::mutex contexts_lock;

long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, nullptr, 10) : otherwise;
}

static int devices() { return (int)std::min(setting("STANDIN_DEVICES", 16), (long)MOST); }

/* The device whose context is current, for the stand-in for cuBLASLt. */
EXPORT int standin_device() { return current ? current->device : -1; }
EXPORT int standin_live(int kind) { return live[kind]; }
EXPORT int standin_count(int device, int what) { return contexts[device].counts[what]; }

/* Calls of a device that are to fail. */
struct Fault {
    int device;
    std::string call;
    Code code;
    int times;
};
static std::vector<Fault> faults;
static std::mutex faults_lock;

/* Lets the next `times` calls of a function on a device return a code. */
EXPORT void standin_fault(int device, const char *call, Code code, int times) {
    std::lock_guard<std::mutex> guard(faults_lock);
    faults.push_back({device, call, code, times});
}
Code fault(const char *call) {
    std::lock_guard<std::mutex> guard(faults_lock);
    for (Fault &next : faults)
        if (next.device == current->device && next.call == call && next.times > 0) {
            next.times--;
            return next.code;
        }
    return SUCCESS;
}

std::atomic<const Tracer *> tracer{nullptr};
static thread_local uint32_t calling;

/* Lets the stand-in for CUPTI trace from now on; null ends it. */
EXPORT void standin_trace(const Tracer *next) { tracer = next; }

Call::Call(const char *of) : name(of), told(tracer), number(told ? told->enter(of) : 0) { calling = number; }
Call::~Call() {
    calling = 0;
    if (told)
        told->leave(name, number);
}
Command traced(Sort sort, Command command, uint64_t node) {
    const Tracer *on = tracer;
    if (!on || sort == Sort::None)
        return command;
    return [on, sort, command, node, call = calling] {
        const uint64_t start = on->time();
        const Code code = command();
        if (code == SUCCESS)
            on->ran(sort, call, node, start, on->time());
        return code;
    };
}

EXPORT Code cuInit(unsigned) { return devices() > 0 ? SUCCESS : NO_DEVICE; }
EXPORT Code cuDriverGetVersion(int *out) {
    *out = (int)setting("STANDIN_DRIVER", 13000);
    return SUCCESS;
}

static const struct {
    Code code;
    const char *name, *text;
} NAMES[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
};

template <class F> static Code named(Code code, const char **out, F field) {
    for (const auto &row : NAMES)
        if (row.code == code) {
            *out = field(row);
            return SUCCESS;
        }
    *out = nullptr;
    return INVALID_VALUE;
}
EXPORT Code cuGetErrorName(Code code, const char **out) {
    return named(code, out, [](const auto &row) { return row.name; });
}
EXPORT Code cuGetErrorString(Code code, const char **out) {
    return named(code, out, [](const auto &row) { return row.text; });
}

static bool known(int device) { return device >= 0 && device < devices(); }
#define KNOWN(device)                                                                                                  \
    if (!known(device))                                                                                                \
    return INVALID_DEVICE

EXPORT Code cuDeviceGetCount(int *out) {
    *out = devices();
    return SUCCESS;
}
EXPORT Code cuDeviceGet(int *out, int ordinal) {
    KNOWN(ordinal);
    *out = ordinal;
    return SUCCESS;
}
EXPORT Code cuDeviceGetName(char *out, int room, int device) {
    KNOWN(device);
    snprintf(out, (size_t)room, "stand-in (no GPU)");
    return SUCCESS;
}
EXPORT Code cuDeviceGetUuid(unsigned char *out, int device) {
    KNOWN(device);
    memset(out, device + 1, 16);
    return SUCCESS;
}
EXPORT Code cuDeviceGetPCIBusId(char *out, int room, int device) {
    KNOWN(device);
    snprintf(out, (size_t)room, "0000:%02X:00.0", device + 0xa0);
    return SUCCESS;
}
EXPORT Code cuDeviceTotalMem_v2(size_t *out, int device) {
    KNOWN(device);
    *out = (size_t)setting("STANDIN_MEMORY", 4L << 30);
    return SUCCESS;
}
EXPORT Code cuDeviceGetAttribute(int *out, int key, int device) {
    KNOWN(device);
    long sm = setting("STANDIN_SM", 90);
    switch (key) {
    case 11: /* pitch */
        *out = (int)MOST_PITCH;
        break;
    case 16: /* multiprocessors */
        *out = 4;
        break;
    case 38: /* L2 */
        *out = 1 << 20;
        break;
    case 39: /* threads of a multiprocessor */
        *out = 2048;
        break;
    case 41: /* unified addresses */
        *out = 1;
        break;
    case 75:
        *out = (int)(sm / 10);
        break;
    case 76:
        *out = (int)(sm % 10);
        break;
    case 81: /* shared memory of a multiprocessor */
        *out = 100 << 10;
        break;
    default:
        *out = 0;
    }
    return SUCCESS;
}
EXPORT Code cuDeviceCanAccessPeer(int *out, int from, int to) {
    KNOWN(from);
    KNOWN(to);
    *out = from != to;
    return SUCCESS;
}

EXPORT Code cuDevicePrimaryCtxRetain(Context **out, int device) {
    KNOWN(device);
    std::lock_guard<std::mutex> guard(contexts_lock);
    Context *context = &contexts[device];
    context->device = device;
    if (context->users++ == 0)
        live[CONTEXTS]++;
    *out = context;
    return SUCCESS;
}
EXPORT Code cuDevicePrimaryCtxRelease_v2(int device) {
    KNOWN(device);
    std::lock_guard<std::mutex> guard(contexts_lock);
    Context *context = &contexts[device];
    if (context->users == 0)
        return INVALID_CONTEXT;
    /* Like the driver's: what is left of a broken context goes with it, and the device is whole again. */
    if (--context->users == 0) {
        live[CONTEXTS]--;
        context->broken = SUCCESS;
    }
    return SUCCESS;
}
EXPORT Code cuCtxSetCurrent(Context *context) {
    current = context;
    return SUCCESS;
}
EXPORT Code cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    READY;
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}
EXPORT Code cuCtxEnablePeerAccess(Context *peer, unsigned) {
    static bool enabled[MOST][MOST];
    READY;
    std::lock_guard<std::mutex> guard(contexts_lock);
    bool &on = enabled[current->device][peer->device];
    if (on)
        return PEER_ACCESS_ALREADY_ENABLED;
    on = true;
    return SUCCESS;
}
