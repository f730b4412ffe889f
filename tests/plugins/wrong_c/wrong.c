/* A layer that makes one backend compute wrongly, for tests of replays: kernels with one op are compiled with another. The key
 * `test.wrong` is `BACKEND OP OTHER`, where ops are codes of nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg.h"

THALWEG_MANIFEST("name=wrong\nkind=layer\nversion=1.0.0");

/* The layer over the one backend that it changes. */
static thalweg_backend_api below;
static const thalweg_kernel_table *kernel_below;
static thalweg_kernel_table kernel;
static unsigned op, other;

static int32_t compile(thalweg_context context, const thalweg_compile_args *args, uint64_t *out) {
    const thalweg_kernel_desc *old = args ? args->source.kernel : NULL;
    if (!old)
        return kernel_below->compile(context, args, out);
    thalweg_node_desc *nodes = calloc(old->node_count + 1, sizeof *nodes);
    if (!nodes)
        return THALWEG_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < old->node_count; i++) {
        nodes[i] = old->nodes[i];
        if (nodes[i].op == op)
            nodes[i].op = other;
    }
    thalweg_kernel_desc desc = *old;
    desc.nodes = nodes;
    thalweg_compile_args changed = *args;
    changed.source.kernel = &desc;
    int32_t code = kernel_below->compile(context, &changed, out);
    free(nodes);
    return code;
}

static const void *query_interface(thalweg_context context, uint32_t table, uint32_t version) {
    if (version == 1 && table == THALWEG_TABLE_ID_KERNEL)
        return &kernel;
    return below.query_interface(context, table, version);
}

int32_t thalweg_layer(uint32_t abi, const thalweg_host_api *host, const thalweg_backend_api *next,
                      thalweg_backend_api *out) {
    if (!host || !next || !out || abi >> 16 != THALWEG_ABI_MAJOR)
        return THALWEG_STATUS_INVALID_ARGUMENT;
    char text[96] = "", name[33] = "";
    size_t length = 0;
    thalweg_str key = {(const uint8_t *)"test.wrong", strlen("test.wrong")};
    if (host->config(host->context, key, (uint8_t *)text, sizeof text - 1, &length) != 0)
        return THALWEG_STATUS_INVALID_ARGUMENT;
    if (sscanf(text, "%32s %u %u", name, &op, &other) != 3)
        return THALWEG_STATUS_INVALID_ARGUMENT;
    const thalweg_core_table *core = next->query_interface(next->context, THALWEG_TABLE_ID_CORE, 1);
    thalweg_backend_info info;
    *out = *next;
    if (core->info(next->context, &info) != 0 || strcmp((const char *)info.name, name) != 0 || below.context)
        return THALWEG_STATUS_OK;
    below = *next;
    kernel_below = next->query_interface(next->context, THALWEG_TABLE_ID_KERNEL, 1);
    if (!kernel_below)
        return THALWEG_STATUS_UNSUPPORTED;
    kernel = *kernel_below;
    kernel.compile = compile;
    out->query_interface = query_interface;
    return THALWEG_STATUS_OK;
}
