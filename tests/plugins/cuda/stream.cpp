/* Stand-in for libcuda: streams and events. */

#include "state.h"

/* Commands that wait in a stream at most: whoever submits more waits for room, as with the driver, which has about 1024. */
enum { QUEUE = 256 };

static std::set<Event *> events;
static std::mutex events_lock;

Stream::Stream(Context *of) : context(of), thread([this] { work(); }) {
    live[STREAMS]++;
    std::lock_guard<std::mutex> guard(context->streams_lock);
    context->streams.insert(this);
}

Stream::~Stream() {
    {
        std::lock_guard<std::mutex> guard(lock);
        closed = true;
    }
    wake.notify_all();
    thread.join();
    live[STREAMS]--;
    std::lock_guard<std::mutex> guard(context->streams_lock);
    context->streams.erase(this);
}

void wait_for_all(Context *context) {
    std::lock_guard<std::mutex> calls(context->calls);
    std::lock_guard<std::mutex> streams(context->streams_lock);
    for (Stream *stream : context->streams)
        stream->wait();
}

void Stream::work() {
    for (;;) {
        Command command;
        {
            std::unique_lock<std::mutex> guard(lock);
            busy = false;
            if (commands.empty())
                idle.notify_all();
            wake.wait(guard, [&] { return closed || !commands.empty(); });
            if (commands.empty())
                return;
            command = std::move(commands.front());
            commands.pop_front();
            busy = true;
        }
        room.notify_all();
        /* Once the context is broken nothing but marks of streams goes on. */
        Code code = command();
        Code none = SUCCESS;
        if (code != SUCCESS)
            context->broken.compare_exchange_strong(none, code);
    }
}

Code Stream::push(Command command, Sort sort) {
    std::unique_lock<std::mutex> guard(lock);
    if (capture) {
        if (capture->spoiled)
            return STREAM_CAPTURE_INVALIDATED;
        std::unique_ptr<Node> node(new Node{capture, std::move(command), {}, Sort::Kernel});
        if (!capture->nodes.empty())
            node->after.push_back(capture->nodes.back().get());
        if (const Tracer *told = tracer)
            told->node(node.get(), nullptr, node->sort);
        capture->nodes.push_back(std::move(node));
        return SUCCESS;
    }
    room.wait(guard, [&] { return commands.size() < QUEUE; });
    commands.push_back([this, command = traced(sort, std::move(command))] {
        return context->broken ? (Code)SUCCESS : command();
    });
    wake.notify_all();
    return SUCCESS;
}

bool Stream::is_idle() {
    std::lock_guard<std::mutex> guard(lock);
    return commands.empty() && !busy;
}

void Stream::wait() {
    std::unique_lock<std::mutex> guard(lock);
    idle.wait(guard, [&] { return commands.empty() && !busy; });
}

EXPORT Code cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) {
    READY;
    if (flags != 1 || priority > 0 || priority < -5)
        return INVALID_VALUE;
    *out = new Stream(current);
    return SUCCESS;
}
EXPORT Code cuStreamDestroy_v2(Stream *stream) {
    delete stream;
    return SUCCESS;
}
EXPORT Code cuStreamQuery(Stream *stream) {
    OF_CONTEXT(stream);
    return stream->is_idle() ? SUCCESS : NOT_READY;
}
EXPORT Code cuStreamSynchronize(Stream *stream) {
    OF_CONTEXT(stream);
    stream->wait();
    return stream->context->broken;
}
EXPORT Code cuStreamWaitValue32_v2(Stream *stream, Ptr address, unsigned value, unsigned flags) {
    OF_CONTEXT(stream);
    if (flags != 0 || address % 4 || kind_of(address, 4) == Memory::None)
        return INVALID_VALUE;
    Context *context = stream->context;
    return stream->push([=] {
        const auto *flag = (const std::atomic<unsigned> *)address;
        for (int looks = 0; (int)(flag->load(std::memory_order_acquire) - value) < 0 && !context->broken; looks++)
            if (looks > 100)
                std::this_thread::sleep_for(std::chrono::microseconds(5));
        return SUCCESS;
    });
}
EXPORT Code cuStreamWriteValue32_v2(Stream *stream, Ptr address, unsigned value, unsigned flags) {
    OF_CONTEXT(stream);
    if (flags != 0 || address % 4 || kind_of(address, 4) == Memory::None)
        return INVALID_VALUE;
    return stream->push([=] {
        ((std::atomic<unsigned> *)address)->store(value, std::memory_order_release);
        return SUCCESS;
    });
}
EXPORT Code cuStreamBeginCapture_v2(Stream *stream, unsigned) {
    OF_CONTEXT(stream);
    if (Code code = fault("cuStreamBeginCapture"))
        return code;
    std::lock_guard<std::mutex> guard(stream->lock);
    if (stream->capture)
        return STREAM_CAPTURE_UNSUPPORTED;
    live[GRAPHS]++;
    stream->capture = new Graph();
    return SUCCESS;
}
EXPORT Code cuStreamEndCapture(Stream *stream, Graph **out) {
    OF_CONTEXT(stream);
    std::lock_guard<std::mutex> guard(stream->lock);
    *out = stream->capture;
    stream->capture = nullptr;
    if (*out && (*out)->spoiled) {
        delete *out;
        *out = nullptr;
        live[GRAPHS]--;
        return STREAM_CAPTURE_INVALIDATED;
    }
    return *out ? SUCCESS : INVALID_VALUE;
}
/* Lets a capture on a stream fail, for the stand-in for cuBLASLt. */
EXPORT void standin_spoil(Stream *stream) {
    std::lock_guard<std::mutex> guard(stream->lock);
    if (stream->capture)
        stream->capture->spoiled = true;
}

static bool alive(Event *event) {
    std::lock_guard<std::mutex> guard(events_lock);
    return events.count(event) != 0;
}
#define ALIVE(event)                                                                                                   \
    if (!alive(event))                                                                                                 \
        return INVALID_HANDLE;                                                                                         \
    { std::lock_guard<std::mutex> guard((event)->context->calls); }

EXPORT Code cuEventCreate(Event **out, unsigned flags) {
    READY;
    Event *event = new Event{current, (flags & 2) == 0, {}, {}};
    std::lock_guard<std::mutex> guard(events_lock);
    events.insert(event);
    live[EVENTS]++;
    *out = event;
    return SUCCESS;
}
EXPORT Code cuEventDestroy_v2(Event *event) {
    {
        std::lock_guard<std::mutex> guard(events_lock);
        if (!events.erase(event))
            return INVALID_HANDLE;
    }
    delete event;
    live[EVENTS]--;
    return SUCCESS;
}

static std::shared_ptr<Point> point_of(Event *event) {
    std::lock_guard<std::mutex> guard(event->lock);
    return event->point;
}

EXPORT Code cuEventRecord(Event *event, Stream *stream) {
    OF_CONTEXT(stream);
    ALIVE(event);
    if (event->context != stream->context)
        return INVALID_HANDLE;
    auto point = std::make_shared<Point>();
    {
        std::lock_guard<std::mutex> guard(event->lock);
        event->point = point;
    }
    std::lock_guard<std::mutex> guard(stream->lock);
    stream->commands.push_back([point] {
        point->time = std::chrono::steady_clock::now();
        point->done.store(true, std::memory_order_release);
        return SUCCESS;
    });
    stream->wake.notify_all();
    return SUCCESS;
}

static void wait_for(const std::shared_ptr<Point> &point, Context *context) {
    for (int looks = 0; point && !point->done.load(std::memory_order_acquire) && !context->broken; looks++)
        if (looks > 100)
            std::this_thread::sleep_for(std::chrono::microseconds(5));
}

EXPORT Code cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
    OF_CONTEXT(stream);
    ALIVE(event);
    auto point = point_of(event);
    Context *of = event->context;
    return stream->push([point, of] {
        wait_for(point, of);
        return SUCCESS;
    });
}
EXPORT Code cuEventQuery(Event *event) {
    ALIVE(event);
    if (event->context->broken)
        return event->context->broken;
    auto point = point_of(event);
    return !point || point->done.load(std::memory_order_acquire) ? SUCCESS : NOT_READY;
}
EXPORT Code cuEventSynchronize(Event *event) {
    ALIVE(event);
    wait_for(point_of(event), event->context);
    return event->context->broken;
}
EXPORT Code cuEventElapsedTime(float *out, Event *start, Event *end) {
    READY;
    ALIVE(start);
    ALIVE(end);
    auto first = point_of(start), last = point_of(end);
    if (!start->timing || !end->timing || !first || !last)
        return INVALID_HANDLE;
    if (!first->done || !last->done)
        return NOT_READY;
    *out = std::chrono::duration<float, std::milli>(last->time - first->time).count();
    return SUCCESS;
}
