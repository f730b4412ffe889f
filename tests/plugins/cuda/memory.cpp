/* Stand-in for libcuda: memory. */

#include "state.h"
#include <sys/mman.h>

struct Range {
    size_t bytes;
    Memory kind;
    Context *context;
    bool registered;
};
static std::map<Ptr, Range> ranges;
static std::mutex ranges_lock;

/* The range that an address lies in. */
static std::map<Ptr, Range>::iterator around(Ptr address) {
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin())
        return ranges.end();
    auto range = std::prev(after);
    return address < range->first + range->second.bytes ? range : ranges.end();
}

Memory kind_of(Ptr address, size_t bytes) {
    std::lock_guard<std::mutex> guard(ranges_lock);
    auto range = around(address);
    if (range == ranges.end())
        return Memory::None;
    return address + bytes <= range->first + range->second.bytes ? range->second.kind : Memory::None;
}

/* Memory of copies: all of it known to the driver, all of it pinned, or none of it known. Other ranges are refused. */
static bool has_one_kind(Ptr address, size_t bytes) {
    std::lock_guard<std::mutex> guard(ranges_lock);
    auto next = ranges.lower_bound(address);
    auto range = around(address);
    if (range == ranges.end())
        return next == ranges.end() || next->first >= address + bytes;
    const Memory kind = range->second.kind;
    for (Ptr at = address; at < address + bytes; at = range->first + range->second.bytes) {
        range = around(at);
        if (range == ranges.end() || range->second.kind != kind)
            return false;
        if (kind == Memory::Device)
            return address + bytes <= range->first + range->second.bytes;
    }
    return true;
}
static Memory kind_at(Ptr address) { return kind_of(address, 1); }

static Code add(Ptr address, size_t bytes, Memory kind, bool registered) {
    std::lock_guard<std::mutex> guard(ranges_lock);
    auto after = ranges.lower_bound(address + bytes);
    if (after != ranges.begin()) {
        auto before = std::prev(after);
        if (before->first + before->second.bytes > address)
            return HOST_MEMORY_ALREADY_REGISTERED;
    }
    ranges[address] = Range{bytes, kind, current, registered};
    return SUCCESS;
}

/* The size of what starts here; 0 if nothing of the kind does. */
static size_t take(Ptr address, Memory kind, bool registered) {
    std::lock_guard<std::mutex> guard(ranges_lock);
    auto found = ranges.find(address);
    if (found == ranges.end() || found->second.kind != kind || found->second.registered != registered)
        return 0;
    size_t bytes = found->second.bytes;
    ranges.erase(found);
    return bytes;
}

static void *pages(size_t bytes) {
    void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return address == MAP_FAILED ? nullptr : address;
}

EXPORT Code cuMemGetInfo_v2(size_t *free, size_t *total) {
    READY;
    *total = (size_t)setting("STANDIN_MEMORY", 4L << 30);
    *free = *total - current->used;
    return SUCCESS;
}
EXPORT Code cuMemAlloc_v2(Ptr *out, size_t bytes) {
    READY_FOR("cuMemAlloc");
    if (bytes == 0)
        return INVALID_VALUE;
    uint64_t total = (uint64_t)setting("STANDIN_MEMORY", 4L << 30), used = current->used;
    do {
        if (bytes > total - used)
            return OUT_OF_MEMORY;
    } while (!current->used.compare_exchange_weak(used, used + bytes));
    void *address = pages(bytes);
    if (!address) {
        current->used -= bytes;
        return OUT_OF_MEMORY;
    }
    live[MEMORY]++;
    *out = (Ptr)address;
    return add(*out, bytes, Memory::Device, false);
}
EXPORT Code cuMemFree_v2(Ptr address) {
    if (!current)
        return INVALID_CONTEXT;
    wait_for_all(current);
    size_t bytes = take(address, Memory::Device, false);
    if (bytes == 0)
        return INVALID_VALUE;
    munmap((void *)address, bytes);
    current->used -= bytes;
    live[MEMORY]--;
    return current->broken;
}
EXPORT Code cuMemHostAlloc(void **out, size_t bytes, unsigned) {
    READY;
    if (!(*out = pages(bytes)))
        return OUT_OF_MEMORY;
    live[PINNED]++;
    return add((Ptr)*out, bytes, Memory::Host, false);
}
EXPORT Code cuMemFreeHost(void *address) {
    if (current)
        wait_for_all(current);
    size_t bytes = take((Ptr)address, Memory::Host, false);
    if (bytes == 0)
        return INVALID_VALUE;
    munmap(address, bytes);
    live[PINNED]--;
    return SUCCESS;
}
EXPORT Code cuMemHostRegister_v2(void *address, size_t bytes, unsigned) {
    READY;
    Code code = add((Ptr)address, bytes, Memory::Host, true);
    live[REGISTERED] += code == SUCCESS;
    return code;
}
EXPORT Code cuMemHostUnregister(void *address) {
    if (take((Ptr)address, Memory::Host, true) == 0)
        return HOST_MEMORY_NOT_REGISTERED;
    live[REGISTERED]--;
    return SUCCESS;
}
EXPORT Code cuMemHostGetDevicePointer_v2(Ptr *out, void *address, unsigned) {
    READY;
    *out = (Ptr)address;
    return kind_of(*out, 1) == Memory::Host ? SUCCESS : INVALID_VALUE;
}
EXPORT Code cuPointerGetAttribute(void *out, int key, Ptr address) {
    READY;
    std::lock_guard<std::mutex> guard(ranges_lock);
    auto range = around(address);
    if (range == ranges.end())
        return INVALID_VALUE;
    switch (key) {
    case 2: /* kind of memory */
        *(unsigned *)out = range->second.kind == Memory::Host ? 1 : 2;
        return SUCCESS;
    case 11: /* start and size of the range */
        *(Ptr *)out = range->first;
        return SUCCESS;
    case 12:
        *(size_t *)out = range->second.bytes;
        return SUCCESS;
    default:
        return INVALID_VALUE;
    }
}

/* Rows of a copy. */
struct Rows {
    Ptr to, from;
    size_t to_pitch, from_pitch, width, rows;

    Code run() const {
        for (size_t row = 0; row < rows; row++)
            memcpy((void *)(to + row * to_pitch), (const void *)(from + row * from_pitch), width);
        return SUCCESS;
    }
    size_t reach(size_t pitch) const { return (rows - 1) * pitch + width; }
    /* A single row has no pitches. */
    bool pitched() const {
        auto fits = [&](size_t pitch) { return pitch >= width && pitch <= MOST_PITCH; };
        return rows == 1 || (fits(to_pitch) && fits(from_pitch));
    }
    bool reaches() const {
        return width && rows && has_one_kind(to, reach(to_pitch)) && has_one_kind(from, reach(from_pitch));
    }
};

/* A command for a copy; host memory that is not pinned is treated as the driver treats it. */
static Code copy(Stream *stream, Rows rows) {
    OF_CONTEXT(stream);
    if (!rows.reaches() || !rows.pitched())
        return INVALID_VALUE;
    Memory to = kind_at(rows.to), from = kind_at(rows.from);
    if (to == Memory::None && from == Memory::None)
        return INVALID_VALUE;
    if (from == Memory::None) {
        /* The driver has read the host's memory when it returns. */
        auto staged = std::make_shared<std::vector<char>>(rows.width * rows.rows);
        Rows in = {(Ptr)staged->data(), rows.from, rows.width, rows.from_pitch, rows.width, rows.rows};
        in.run();
        Rows out = {rows.to, (Ptr)staged->data(), rows.to_pitch, rows.width, rows.width, rows.rows};
        return stream->push([staged, out] { return out.run(); }, Sort::Copy);
    }
    Code code = stream->push([rows] { return rows.run(); }, Sort::Copy);
    if (to == Memory::None)
        stream->wait();
    return code;
}

EXPORT Code cuMemcpyAsync(Ptr to, Ptr from, size_t bytes, Stream *stream) {
    return copy(stream, {to, from, bytes, bytes, bytes, 1});
}
EXPORT Code cuMemcpyPeerAsync(Ptr to, Context *, Ptr from, Context *, size_t bytes, Stream *stream) {
    OF_CONTEXT(stream);
    if (kind_of(to, bytes) != Memory::Device || kind_of(from, bytes) != Memory::Device)
        return INVALID_VALUE;
    return stream->push([=] { return Rows{to, from, bytes, bytes, bytes, 1}.run(); }, Sort::Copy);
}

struct Copy2D {
    size_t from_x, from_y;
    int from_kind;
    const void *from_host;
    Ptr from;
    void *from_array;
    size_t from_pitch, to_x, to_y;
    int to_kind;
    void *to_host;
    Ptr to;
    void *to_array;
    size_t to_pitch, width, rows;
};
EXPORT Code cuMemcpy2DAsync_v2(const Copy2D *c, Stream *stream) {
    if (c->from_kind != 4 || c->to_kind != 4 || c->to_pitch < c->width || c->from_pitch < c->width)
        return INVALID_VALUE;
    return copy(stream, {c->to, c->from, c->to_pitch, c->from_pitch, c->width, c->rows});
}

template <class T> static Code set(Stream *stream, Ptr to, size_t pitch, T value, size_t width, size_t rows) {
    OF_CONTEXT(stream);
    if (to % sizeof(T) || kind_of(to, (rows - 1) * pitch + width * sizeof(T)) == Memory::None)
        return INVALID_VALUE;
    auto fill = [=] {
        for (size_t row = 0; row < rows; row++)
            for (size_t i = 0; i < width; i++)
                ((T *)(to + row * pitch))[i] = value;
        return SUCCESS;
    };
    return stream->push(fill, Sort::Set);
}
EXPORT Code cuMemsetD8Async(Ptr to, unsigned char value, size_t count, Stream *stream) {
    return set(stream, to, 0, value, count, 1);
}
EXPORT Code cuMemsetD16Async(Ptr to, unsigned short value, size_t count, Stream *stream) {
    return set(stream, to, 0, value, count, 1);
}
EXPORT Code cuMemsetD32Async(Ptr to, unsigned value, size_t count, Stream *stream) {
    return set(stream, to, 0, value, count, 1);
}
EXPORT Code cuMemsetD2D32Async(Ptr to, size_t pitch, unsigned value, size_t width, size_t rows, Stream *stream) {
    return set(stream, to, pitch, value, width, rows);
}

struct Copy3D {
    size_t from_x, from_y, from_z, from_lod;
    int from_kind;
    const void *from_host;
    Ptr from;
    void *from_array, *reserved0;
    size_t from_pitch, from_height, to_x, to_y, to_z, to_lod;
    int to_kind;
    void *to_host;
    Ptr to;
    void *to_array, *reserved1;
    size_t to_pitch, to_height, width, rows, depth;
};
Code node_copy(const void *params, Command *out) {
    const Copy3D *c = (const Copy3D *)params;
    Rows rows = {c->to, c->from, c->to_pitch, c->from_pitch, c->width, c->rows};
    auto pitch = [&](size_t pitch) { return pitch == 0 ? rows.rows == 1 : pitch >= rows.width && pitch <= MOST_PITCH; };
    if (c->from_kind != 4 || c->to_kind != 4 || c->depth != 1 || !pitch(rows.to_pitch) || !pitch(rows.from_pitch))
        return INVALID_VALUE;
    if (!rows.reaches() || kind_at(rows.to) == Memory::None || kind_at(rows.from) == Memory::None)
        return INVALID_VALUE;
    *out = [rows] { return rows.run(); };
    return SUCCESS;
}

struct Set {
    Ptr to;
    size_t pitch;
    unsigned value, element;
    size_t width, rows;
};
size_t rows_of_set(const void *params) { return ((const Set *)params)->rows; }
Code node_set(const void *params, Command *out) {
    Set s = *(const Set *)params;
    if (kind_of(s.to, (s.rows - 1) * s.pitch + s.width * s.element) == Memory::None || s.to % s.element)
        return INVALID_VALUE;
    *out = [s] {
        for (size_t row = 0; row < s.rows; row++)
            for (size_t i = 0; i < s.width; i++)
                memcpy((void *)(s.to + row * s.pitch + i * s.element), &s.value, s.element);
        return SUCCESS;
    };
    return SUCCESS;
}
