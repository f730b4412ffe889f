/* Stand-in for libcuda: modules, launches, graphs. */

#include "state.h"
#include <algorithm>
#include <dlfcn.h>
#include <unistd.h>

struct Function {
    std::string name;
    void (*run)(unsigned blocks, unsigned threads, void **arguments);
    std::vector<size_t> sizes;
};
struct Module {
    Context *context;
    void *library;
    std::map<std::string, Function> functions;
};

Code node_copy(const void *params, Command *out);
Code node_set(const void *params, Command *out);

EXPORT Code cuModuleLoadDataEx(Module **out, const void *image, unsigned, int *, void **) {
    READY;
    const char *bytes = (const char *)image;
    uint64_t length;
    if (memcmp(bytes, "STAND-IN", 8))
        return INVALID_IMAGE;
    memcpy(&length, bytes + 8, 8);
    const char *folder = getenv("TMPDIR");
    std::string path = std::string(folder ? folder : "/tmp") + "/standin-XXXXXX";
    int file = mkstemp(&path[0]);
    if (file < 0 || write(file, bytes + 16, length) != (ssize_t)length)
        return OUT_OF_MEMORY;
    close(file);
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    unlink(path.c_str());
    if (!library)
        return INVALID_IMAGE;
    live[MODULES]++;
    *out = new Module{current, library, {}};
    return SUCCESS;
}
EXPORT Code cuModuleUnload(Module *module) {
    dlclose(module->library);
    delete module;
    live[MODULES]--;
    return SUCCESS;
}
EXPORT Code cuModuleGetFunction(Function **out, Module *module, const char *name) {
    READY;
    void *run = dlsym(module->library, (std::string("standin_run_") + name).c_str());
    void *sizes = dlsym(module->library, (std::string("standin_sizes_") + name).c_str());
    if (!run || !sizes)
        return NOT_FOUND;
    size_t found[64];
    unsigned count = ((unsigned (*)(size_t *))sizes)(found);
    Function &function = module->functions[name];
    function = Function{name, (void (*)(unsigned, unsigned, void **))run, {found, found + count}};
    *out = &function;
    return SUCCESS;
}

Code launch(Function *function, unsigned blocks, unsigned threads, void **arguments, Context *context, Command *out) {
    if (!function || blocks == 0 || threads == 0 || threads > 1024)
        return INVALID_VALUE;
    auto asks = [&](const char *fault) { return function->name.find(fault) != std::string::npos; };
    if (asks("fault_resources"))
        return LAUNCH_OUT_OF_RESOURCES;
    Code fault = asks("fault_address") ? ILLEGAL_ADDRESS : asks("fault_ecc") ? ECC_UNCORRECTABLE : SUCCESS;
    auto copies = std::make_shared<std::vector<std::vector<char>>>();
    for (size_t i = 0; i < function->sizes.size(); i++) {
        const char *from = (const char *)arguments[i];
        copies->emplace_back(from, from + function->sizes[i]);
    }
    auto run = function->run;
    (void)context;
    *out = [=]() -> Code {
        if (fault)
            return fault;
        std::vector<void *> pointers;
        for (auto &copy : *copies)
            pointers.push_back(copy.data());
        run(blocks, threads, pointers.data());
        return SUCCESS;
    };
    return SUCCESS;
}

EXPORT Code cuLaunchKernel(Function *function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned ty,
                           unsigned tz, unsigned, Stream *stream, void **arguments, void **) {
    OF_CONTEXT(stream);
    if (y != 1 || z != 1 || ty != 1 || tz != 1)
        return INVALID_VALUE;
    Command command;
    if (Code code = launch(function, blocks, threads, arguments, current, &command))
        return code;
    return stream->push(std::move(command));
}

struct KernelParams {
    Function *function;
    unsigned x, y, z, tx, ty, tz, shared;
    void **arguments, **extra;
    void *kernel;
    Context *context;
};
static Code node_kernel(const void *params, Command *out) {
    const KernelParams *p = (const KernelParams *)params;
    return launch(p->function, p->x, p->tx, p->arguments, current, out);
}

/* Nodes as they run: a change replaces one, and launches that are under way keep what they have. */
struct Executable {
    Context *context;
    std::weak_ptr<char> graph;
    std::map<Node *, size_t> index;
    std::vector<std::shared_ptr<Command>> commands;
    std::vector<size_t> order;
    std::shared_ptr<std::mutex> running = std::make_shared<std::mutex>();
};

EXPORT Code cuGraphCreate(Graph **out, unsigned) {
    READY;
    *out = new Graph();
    live[GRAPHS]++;
    return SUCCESS;
}
EXPORT Code cuGraphDestroy(Graph *graph) {
    delete graph;
    live[GRAPHS]--;
    return SUCCESS;
}

static Code add(Node **out, Graph *graph, Node *const *after, size_t count, Command command) {
    std::unique_ptr<Node> node(new Node{graph, std::move(command), {after, after + count}});
    for (size_t i = 0; i < count; i++) {
        if (after[i]->graph != graph)
            return INVALID_VALUE;
        for (size_t j = 0; j < i; j++)
            if (after[i] == after[j])
                return INVALID_VALUE;
    }
    *out = node.get();
    graph->nodes.push_back(std::move(node));
    return SUCCESS;
}
#define ADD(symbol, make)                                                                                              \
    EXPORT Code symbol(Node **out, Graph *graph, Node *const *after, size_t count, const void *params, void *) {       \
        READY;                                                                                                         \
        Command command;                                                                                               \
        if (Code code = make(params, &command))                                                                        \
            return code;                                                                                               \
        return add(out, graph, after, count, std::move(command));                                                      \
    }
ADD(cuGraphAddKernelNode_v2, node_kernel)
ADD(cuGraphAddMemcpyNode, node_copy)
ADD(cuGraphAddMemsetNode, node_set)

EXPORT Code cuGraphAddHostNode(Node **out, Graph *graph, Node *const *after, size_t count, const void *params) {
    READY;
    struct Params {
        void (*function)(void *);
        void *data;
    } p = *(const Params *)params;
    return add(out, graph, after, count, [p] {
        p.function(p.data);
        return SUCCESS;
    });
}
EXPORT Code cuGraphAddChildGraphNode(Node **out, Graph *graph, Node *const *after, size_t count, Graph *child) {
    READY;
    std::vector<Command> commands;
    for (auto &node : child->nodes)
        commands.push_back(node->run);
    return add(out, graph, after, count, [commands] {
        for (auto &command : commands)
            if (Code code = command())
                return code;
        return (Code)SUCCESS;
    });
}

EXPORT Code cuGraphInstantiateWithFlags(Executable **out, Graph *graph, uint64_t) {
    READY;
    auto made = std::make_unique<Executable>();
    made->context = current;
    made->graph = graph->life;
    for (auto &node : graph->nodes) {
        made->index[node.get()] = made->commands.size();
        made->commands.push_back(std::make_shared<Command>(node->run));
    }
    /* Any order that keeps dependencies is allowed: the latest node that may run comes next. */
    std::vector<bool> done(made->commands.size());
    while (made->order.size() < made->commands.size())
        for (size_t i = made->commands.size(); i-- > 0;) {
            auto &after = graph->nodes[i]->after;
            bool may = std::all_of(after.begin(), after.end(), [&](Node *n) { return done[made->index[n]]; });
            if (!done[i] && may) {
                done[i] = true;
                made->order.push_back(i);
                break;
            }
        }
    live[EXECUTABLES]++;
    *out = made.release();
    return SUCCESS;
}
EXPORT Code cuGraphExecDestroy(Executable *executable) {
    delete executable;
    live[EXECUTABLES]--;
    return SUCCESS;
}
EXPORT Code cuGraphExecKernelNodeSetParams_v2(Executable *executable, Node *node, const void *params) {
    READY;
    /* The driver reads the node, which must be in the graph still. */
    if (executable->graph.expired())
        return INVALID_VALUE;
    auto found = executable->index.find(node);
    if (found == executable->index.end())
        return INVALID_VALUE;
    Command command;
    if (Code code = node_kernel(params, &command))
        return code;
    executable->commands[found->second] = std::make_shared<Command>(std::move(command));
    return SUCCESS;
}
EXPORT Code cuGraphLaunch(Executable *executable, Stream *stream) {
    OF_CONTEXT(stream);
    std::vector<std::shared_ptr<Command>> commands;
    for (size_t i : executable->order)
        commands.push_back(executable->commands[i]);
    auto running = executable->running;
    return stream->push([commands, running]() -> Code {
        std::lock_guard<std::mutex> guard(*running);
        for (auto &command : commands)
            if (Code code = (*command)())
                return code;
        return SUCCESS;
    });
}

/* For the stand-in for cuBLASLt. */
EXPORT Code standin_push(Stream *stream, void (*run)(void *), void *data, void (*drop)(void *)) {
    std::shared_ptr<void> kept(data, drop);
    OF_CONTEXT(stream);
    return stream->push([run, kept] {
        run(kept.get());
        return SUCCESS;
    });
}
EXPORT int standin_memory(Ptr address, size_t bytes) { return kind_of(address, bytes) != Memory::None; }
