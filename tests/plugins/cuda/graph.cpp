/* Stand-in for libcuda: modules, launches, graphs. */

#include "state.h"
#include <algorithm>
#include <dlfcn.h>
#include <unistd.h>

struct Function {
    std::string name;
    void (*run)(unsigned blocks, unsigned threads, void **arguments);
    std::vector<size_t> sizes;
    std::atomic<bool> loaded{false};
    /* Puts the code onto the device at the first launch, unless it is there. That waits for all streams. */
    void load() {
        if (!loaded.exchange(true))
            wait_for_all(current);
    }
};
struct Module {
    Context *context;
    void *library;
    std::map<std::string, Function> functions;
};

Code node_copy(const void *params, Command *out);
Code node_set(const void *params, Command *out);
size_t rows_of_set(const void *params);

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
    /* Arguments have 4096 bytes in all, and pointers are the most of them. */
    std::vector<size_t> found(4096);
    found.resize(((unsigned (*)(size_t *))sizes)(found.data()));
    Function &function = module->functions[name];
    function.name = name;
    function.run = (void (*)(unsigned, unsigned, void **))run;
    function.sizes = found;
    *out = &function;
    return SUCCESS;
}
EXPORT Code cuFuncLoad(Function *function) {
    READY;
    function->loaded = true;
    return SUCCESS;
}

Code launch(Function *function, unsigned blocks, unsigned threads, void **arguments, Context *context, Command *out) {
    if (!function || blocks == 0 || threads == 0 || threads > 1024)
        return INVALID_VALUE;
    auto asks = [&](const char *fault) { return function->name.find(fault) != std::string::npos; };
    if (asks("fault_resources"))
        return LAUNCH_OUT_OF_RESOURCES;
    function->load();
    Code asked = fault("kernel");
    Code code = asks("fault_address") ? ILLEGAL_ADDRESS : asks("fault_ecc") ? ECC_UNCORRECTABLE : asked;
    auto copies = std::make_shared<std::vector<std::vector<char>>>();
    for (size_t i = 0; i < function->sizes.size(); i++) {
        const char *from = (const char *)arguments[i];
        copies->emplace_back(from, from + function->sizes[i]);
    }
    auto run = function->run;
    (void)context;
    *out = [=]() -> Code {
        if (code)
            return code;
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
    if (Code code = fault("cuLaunchKernel"))
        return code;
    if (y != 1 || z != 1 || ty != 1 || tz != 1)
        return INVALID_VALUE;
    Command command;
    if (Code code = launch(function, blocks, threads, arguments, current, &command))
        return code;
    {
        /* What is captured is a part of a graph. */
        std::lock_guard<std::mutex> guard(stream->lock);
        current->counts[LAUNCHED_KERNELS] += stream->capture == nullptr;
    }
    return stream->push(std::move(command), Sort::Kernel);
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

/* A node as it runs: a change replaces its commands, and launches that are under way keep what they have. */
struct Step {
    /* The driver's copies: the node, or those of a child. */
    std::vector<std::unique_ptr<Node>> nodes;
    std::shared_ptr<std::vector<Command>> commands;
    std::vector<size_t> after;
    Sort sort;
    size_t extent;
};
struct Executable {
    Context *context;
    std::weak_ptr<char> graph;
    std::map<Node *, size_t> index;
    std::vector<Step> steps;
    unsigned launches = 0;
    std::shared_ptr<std::mutex> running = std::make_shared<std::mutex>();

    std::vector<size_t> order();
};

/* Any order that keeps dependencies is allowed, and launches take different ones: the latest node that may run comes next, so
 * that a dependency that was left out shows; the one that has waited longest, so that nodes side by side take turns with what
 * they consist of; any. */
std::vector<size_t> Executable::order() {
    const unsigned launch = launches++;
    uint64_t state = launch * 2654435761u + 1;
    std::vector<size_t> order, ready, missing(steps.size());
    auto add_ready = [&](size_t i) {
        if (missing[i] == 0)
            ready.push_back(i);
    };
    for (size_t i = 0; i < steps.size(); i++) {
        missing[i] = steps[i].after.size();
        add_ready(i);
    }
    while (!ready.empty()) {
        auto next = ready.begin();
        if (launch % 3 == 0)
            next = std::max_element(ready.begin(), ready.end());
        if (launch % 3 == 2) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            next += (ptrdiff_t)((state >> 33) % ready.size());
        }
        const size_t done = *next;
        ready.erase(next);
        order.push_back(done);
        for (size_t i = done + 1; i < steps.size(); i++)
            if (std::count(steps[i].after.begin(), steps[i].after.end(), done)) {
                missing[i]--;
                add_ready(i);
            }
    }
    return order;
}

EXPORT Code cuGraphCreate(Graph **out, unsigned) {
    READY_FOR("cuGraphCreate");
    *out = new Graph();
    live[GRAPHS]++;
    return SUCCESS;
}
EXPORT Code cuGraphDestroy(Graph *graph) {
    delete graph;
    live[GRAPHS]--;
    return SUCCESS;
}

static Code add(Node **out, Graph *graph, Node *const *after, size_t count, Command command, Sort sort, size_t extent = 1) {
    std::unique_ptr<Node> node(new Node{graph, std::move(command), {after, after + count}, sort, extent});
    for (size_t i = 0; i < count; i++) {
        if (after[i]->graph != graph)
            return INVALID_VALUE;
        for (size_t j = 0; j < i; j++)
            if (after[i] == after[j])
                return INVALID_VALUE;
    }
    if (const Tracer *told = tracer)
        told->node(node.get(), nullptr, sort);
    *out = node.get();
    graph->nodes.push_back(std::move(node));
    return SUCCESS;
}
#define ADD(symbol, make, sort, extent)                                                                                \
    EXPORT Code symbol(Node **out, Graph *graph, Node *const *after, size_t count, const void *params, void *) {       \
        READY;                                                                                                         \
        Command command;                                                                                               \
        if (Code code = make(params, &command))                                                                        \
            return code;                                                                                               \
        return add(out, graph, after, count, std::move(command), sort, extent);                                        \
    }
ADD(cuGraphAddKernelNode_v2, node_kernel, Sort::Kernel, 1)
ADD(cuGraphAddMemcpyNode, node_copy, Sort::Copy, 1)
ADD(cuGraphAddMemsetNode, node_set, Sort::Set, rows_of_set(params))

uint64_t new_node() {
    static std::atomic<uint64_t> next{1};
    return next++;
}
std::unique_ptr<Node> copied(Node &node) {
    std::unique_ptr<Node> copy(new Node{nullptr, node.run, {}, node.sort, node.extent});
    if (const Tracer *told = tracer)
        told->node(copy.get(), &node, node.sort);
    for (auto &inner : node.inside)
        copy->inside.push_back(copied(*inner));
    return copy;
}
EXPORT uint64_t standin_node_number(const Node *node) { return node->number; }

static std::vector<Command> commands_of(const Graph *child) {
    std::vector<Command> commands;
    for (auto &node : child->nodes)
        commands.push_back(node->run);
    return commands;
}
EXPORT Code cuGraphAddChildGraphNode(Node **out, Graph *graph, Node *const *after, size_t count, Graph *child) {
    READY;
    Code code = add(out, graph, after, count, Command(), Sort::Child, child->nodes.size());
    if (code == SUCCESS)
        for (auto &node : child->nodes)
            (*out)->inside.push_back(copied(*node));
    return code;
}

EXPORT Code cuGraphInstantiateWithFlags(Executable **out, Graph *graph, uint64_t) {
    READY_FOR("cuGraphInstantiate");
    auto made = std::make_unique<Executable>();
    made->context = current;
    made->graph = graph->life;
    for (auto &node : graph->nodes) {
        made->index[node.get()] = made->steps.size();
        std::vector<std::unique_ptr<Node>> nodes;
        nodes.push_back(copied(*node));
        if (node->sort == Sort::Child)
            nodes = std::move(nodes[0]->inside);
        std::vector<Command> commands;
        for (auto &own : nodes)
            commands.push_back(own->run);
        auto kept = std::make_shared<std::vector<Command>>(std::move(commands));
        made->steps.push_back({std::move(nodes), kept, {}, node->sort, node->extent});
        for (Node *before : node->after)
            made->steps.back().after.push_back(made->index[before]);
    }
    live[EXECUTABLES]++;
    current->counts[INSTANTIATED]++;
    *out = made.release();
    return SUCCESS;
}
EXPORT Code cuGraphExecDestroy(Executable *executable) {
    delete executable;
    live[EXECUTABLES]--;
    return SUCCESS;
}
/* Changes a node for later launches. Its kind and extent stay, and the driver reads it in its graph, which must be there. */
static Code change(Executable *executable, Node *node, Sort sort, size_t extent, std::vector<Command> commands) {
    if (executable->graph.expired())
        return INVALID_VALUE;
    auto found = executable->index.find(node);
    if (found == executable->index.end())
        return INVALID_VALUE;
    Step &step = executable->steps[found->second];
    /* That a child has the same nodes is the caller's part, which the driver need not check. */
    if (sort == Sort::Child && step.sort == sort && step.extent != extent)
        return executable->context->broken = ILLEGAL_ADDRESS;
    if (step.sort != sort || step.extent != extent)
        return INVALID_VALUE;
    step.commands = std::make_shared<std::vector<Command>>(std::move(commands));
    executable->context->counts[CHANGED_NODES]++;
    return SUCCESS;
}
EXPORT Code cuGraphExecKernelNodeSetParams_v2(Executable *executable, Node *node, const void *params) {
    READY_FOR("cuGraphExecKernelNodeSetParams");
    Command command;
    if (Code code = node_kernel(params, &command))
        return code;
    return change(executable, node, Sort::Kernel, 1, {std::move(command)});
}
/* As the driver's: single rows alone. */
EXPORT Code cuGraphExecMemsetNodeSetParams(Executable *executable, Node *node, const void *params, Context *context) {
    READY;
    Command command;
    if (Code code = node_set(params, &command))
        return code;
    if (rows_of_set(params) != 1 || context != executable->context)
        return INVALID_VALUE;
    return change(executable, node, Sort::Set, 1, {std::move(command)});
}
EXPORT Code cuGraphExecChildGraphNodeSetParams(Executable *executable, Node *node, Graph *child) {
    READY;
    return change(executable, node, Sort::Child, child->nodes.size(), commands_of(child));
}
EXPORT Code cuGraphLaunch(Executable *executable, Stream *stream) {
    OF_CONTEXT(stream);
    if (Code code = fault("cuGraphLaunch"))
        return code;
    current->counts[LAUNCHED_GRAPHS]++;
    std::vector<Command> commands;
    for (size_t i : executable->order()) {
        const Step &step = executable->steps[i];
        for (size_t j = 0; j < step.nodes.size(); j++)
            commands.push_back(traced(step.nodes[j]->sort, (*step.commands)[j], step.nodes[j]->number));
    }
    auto running = executable->running;
    return stream->push([commands, running]() -> Code {
        std::lock_guard<std::mutex> guard(*running);
        for (auto &command : commands)
            if (Code code = command())
                return code;
        return SUCCESS;
    });
}

/* For the stand-in for cuBLASLt. */
EXPORT Code standin_push(Stream *stream, void (*run)(void *), void *data, void (*drop)(void *)) {
    std::shared_ptr<void> kept(data, drop);
    OF_CONTEXT(stream);
    auto command = [run, kept] {
        run(kept.get());
        return SUCCESS;
    };
    return stream->push(command, Sort::Kernel);
}
EXPORT int standin_memory(Ptr address, size_t bytes) { return kind_of(address, bytes) != Memory::None; }
