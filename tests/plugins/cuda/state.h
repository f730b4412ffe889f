/* Stand-in for libcuda, no GPU behind it: what its files share.
 *
 * Device memory is the host's, a stream is a thread with a queue, and kernels are C++ that the stand-in for NVRTC has
 * compiled. Like the driver it is strict about what it is handed: contexts, handles, and whether addresses lie in memory that
 * is alive. Environment variables: STANDIN_DRIVER (version, 13000), STANDIN_DEVICES (16), STANDIN_SM (90), STANDIN_MEMORY (bytes of
 * a device, 4 GiB). Names of kernels ask for faults: fault_resources is refused by its launch, fault_address faults while it
 * runs, fault_ecc breaks the device. `standin_fault` lets calls of a device fail, or
 * a kernel of it while it runs. */

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

typedef unsigned Code;
typedef uint64_t Ptr;

enum : Code {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    ECC_UNCORRECTABLE = 214,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901,
};

/* What is counted for each device. */
enum Count { LAUNCHED_KERNELS, LAUNCHED_GRAPHS, INSTANTIATED, CHANGED_NODES, COUNTS };

struct Context {
    int device;
    int users = 0;
    std::atomic<Code> broken{SUCCESS};
    std::atomic<uint64_t> used{0};
    std::atomic<int> counts[COUNTS]{};
    /* Held by a call that waits for all streams of the context; like the driver's, other calls wait for it then. */
    std::mutex calls;
    std::mutex streams_lock;
    std::set<struct Stream *> streams;
};
/* Waits for all streams of a context, and holds up the other calls of it meanwhile. */
void wait_for_all(Context *context);

typedef std::function<Code()> Command;

/* Kinds of nodes, which differ in what of them can change once their graph is executable, and of commands, of which records tell. */
enum class Sort { Kernel, Copy, Set, Child, None };

/* Who traces what runs: the stand-in for CUPTI. */
struct Tracer {
    /* A call begins on this thread; its number. */
    uint32_t (*enter)(const char *name);
    void (*leave)(const char *name, uint32_t call);
    uint64_t (*time)();
    void (*ran)(Sort sort, uint32_t call, uint64_t node, uint64_t start, uint64_t end);
    /* A node was made, or copied from another. */
    void (*node)(struct Node *node, struct Node *original, Sort sort);
};
extern std::atomic<const Tracer *> tracer;
/* A call of the driver, as long as it lives. */
struct Call {
    const char *name;
    const Tracer *told;
    uint32_t number;
    explicit Call(const char *name);
    ~Call();
};
/* A command that is traced as one of the call that this thread is in. */
Command traced(Sort sort, Command command, uint64_t node = 0);
/* A number that no other node has. */
uint64_t new_node();

/* A point in a stream. */
struct Point {
    std::atomic<bool> done{false};
    std::chrono::steady_clock::time_point time;
};

struct Event {
    Context *context;
    bool timing;
    std::mutex lock;
    std::shared_ptr<Point> point;
};

struct Node {
    struct Graph *graph;
    Command run;
    std::vector<Node *> after;
    Sort sort;
    /* Rows of a set, nodes of a child. */
    size_t extent = 1;
    /* Copies of a child's. */
    std::vector<std::unique_ptr<Node>> inside{};
    uint64_t number = new_node();
};
/* A copy of a node, as the driver makes them. */
std::unique_ptr<Node> copied(Node &node);

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    /* The capture that makes it has failed. */
    bool spoiled = false;
    /* Gone with the graph. */
    std::shared_ptr<char> life = std::make_shared<char>();
};

struct Stream {
    Context *context;
    std::mutex lock;
    std::condition_variable wake, idle, room;
    std::deque<Command> commands;
    bool busy = false, closed = false;
    Graph *capture = nullptr;
    std::thread thread;

    explicit Stream(Context *of);
    ~Stream();
    void work();
    Code push(Command command, Sort sort = Sort::None);
    bool is_idle();
    void wait();
};

/* Objects that are alive, by kind, so that a test can see what was lost. */
enum Kind { MEMORY, PINNED, REGISTERED, STREAMS, EVENTS, MODULES, GRAPHS, EXECUTABLES, CONTEXTS, KINDS };
extern std::atomic<int> live[KINDS];

extern thread_local Context *current;

/* What a call answers before it looks at its arguments. */
inline Code ready() {
    if (!current)
        return INVALID_CONTEXT;
    { std::lock_guard<std::mutex> guard(current->calls); }
    return current->broken.load();
}
#define READY                                                                                                          \
    if (Code code = ready())                                                                                           \
    return code
/* As READY, with the faults that a test has asked for. */
Code fault(const char *call);
#define READY_FOR(call)                                                                                                \
    READY;                                                                                                             \
    if (Code code = fault(call))                                                                                       \
    return code
#define OF_CONTEXT(stream)                                                                                             \
    READY;                                                                                                             \
    if (!(stream) || (stream)->context != current)                                                                     \
        return INVALID_HANDLE;                                                                                         \
    Call call_(__func__)

/* Most bytes from one row of a copy to the next. */
enum : size_t { MOST_PITCH = 0x7fffffff };

/* Kinds of memory that addresses lie in. */
enum class Memory { None, Device, Host };
Memory kind_of(Ptr address, size_t bytes);
Code launch(struct Function *function, unsigned blocks, unsigned threads, void **arguments, Context *context,
            Command *out);
long setting(const char *name, long otherwise);
