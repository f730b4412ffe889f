#define TL_ARGUMENT(i) r[node[2 + i]]
#define TL_KIND node[0]
#define TL_LEVEL node[6]
#define TL_STAGE node[7]

TL_FN i64 tl_place(TL_GLOBAL const i64 *const param, const i64 *const d) {
    i64 place = 0;
    for (i32 axis = 0; axis < TL_AXES; ++axis) place += d[axis] * param[4 + axis];
    return param[0] + place * param[3];
}

/* One node that is no reduction. */
TL_FN void tl_node(TL_GLOBAL char *const *const pointers, TL_GLOBAL const i64 *const params,
                   TL_GLOBAL const i64 *const node, const i64 *const d, u64 *const r, const i32 to) {
    TL_GLOBAL const i64 *const param = params + TL_PARAM * (TL_KIND >= 3 && TL_KIND <= 5 ? node[5] : 0);
    switch (TL_KIND) {
    case 0:
        r[to] = (u64)node[5];
        break;
    case 1:
        r[to] = (u64)d[node[5]];
        break;
    case 2:
        r[to] = (u64)tl_philox(TL_ARGUMENT(0), TL_ARGUMENT(1));
        break;
    case 3:
        r[to] = tl_load(node[1], pointers[node[5]] + tl_place(param, d));
        break;
    case 4: {
        const i64 index = (i64)TL_ARGUMENT(0);
        const bool inside = index >= 0 && (u64)index < (u64)param[2];
        r[to] = 0;
        if (inside) r[to] = tl_load(node[1], pointers[node[5]] + tl_place(param, d) + index * param[1] * param[3]);
        break;
    }
    case 5:
        tl_store(node[1], pointers[node[5]] + tl_place(param, d), TL_ARGUMENT(0));
        break;
    case 6: {
        u64 value = tl_step(node[1], TL_ARGUMENT(0), TL_ARGUMENT(1), TL_ARGUMENT(2));
        if (node[8] == 1) value = (u64)tl_bits_of_f32(tl_to_f16(tl_f32_of_bits(value)));
        if (node[8] == 2) value = (u64)tl_bits_of_f32(tl_to_bf16(tl_f32_of_bits(value)));
        r[to] = value;
        break;
    }
    default:
        break;
    }
}

TL_FN void tl_run(TL_GLOBAL char *const *const pointers, TL_GLOBAL const i64 *const words) {
    const i64 outer = words[0], rank = words[1], rows = words[3], points = words[4], depth = words[5];
    const i32 count = (i32)words[2];
    TL_GLOBAL const i64 *const extents = words + TL_HEAD;
    TL_GLOBAL const i64 *const params = extents + TL_AXES;
    TL_GLOBAL const i64 *const nodes = params + TL_PARAM * TL_POINTERS;
    u64 r[TL_NODES], part[TL_NODES];
    i64 d[TL_AXES];
#if TL_CPU
    const i64 run = (rows + (i64)TL_GROUPS - 1) / (i64)TL_GROUPS;
    const i64 from = (i64)TL_GROUP * run, to = rows - from < run ? rows : from + run, by = 1;
#else
    const i64 from = (i64)get_global_id(0), to = rows, by = (i64)get_global_size(0);
#endif
    for (i64 row = from; row < to; row += by) {
        i64 rest = row;
        for (i64 axis = rank; axis < TL_AXES; ++axis) d[axis] = 0;
        for (i64 axis = outer - 1; axis >= 0; --axis) {
            d[axis] = rest % extents[axis];
            rest /= extents[axis];
        }
        for (i64 stage = 0; stage <= depth; ++stage) {
            const bool last = stage == depth;
            for (i64 axis = outer; axis < rank; ++axis) d[axis] = 0;
            for (i32 n = 0; n < count; ++n) {
                TL_GLOBAL const i64 *const node = nodes + TL_NODE * n;
                if (TL_LEVEL == 0 && TL_STAGE == stage && TL_KIND != 5 && TL_KIND != 7)
                    tl_node(pointers, params, node, d, r, n);
                if (TL_KIND == 7 && TL_LEVEL == 0 && TL_STAGE == stage + 1) {
                    part[n] = tl_identity(node[1]);
                    r[n] = tl_is_index(node[1]) ? (u64)-1 : part[n];
                }
            }
            if (last && words[6] == 0) continue;
            for (i64 point = 0; point < points; ++point) {
                for (i32 n = 0; n < count; ++n) {
                    TL_GLOBAL const i64 *const node = nodes + TL_NODE * n;
                    if (TL_LEVEL == 1 && TL_STAGE <= stage && TL_KIND != 7 && (TL_KIND != 5 || last))
                        tl_node(pointers, params, node, d, r, n);
                }
                for (i32 n = 0; n < count; ++n) {
                    TL_GLOBAL const i64 *const node = nodes + TL_NODE * n;
                    if (TL_KIND != 7 || TL_LEVEL != 0 || TL_STAGE != stage + 1) continue;
                    if (tl_is_index(node[1])) {
                        tl_next(node[1], &part[n], &r[n], TL_ARGUMENT(0), point);
                        continue;
                    }
                    part[n] = tl_combine(node[1], part[n], TL_ARGUMENT(0));
                    /* Sums of sums, so that roundings grow with the root of the points. */
                    if (point % 64 == 63 || point + 1 == points) {
                        r[n] = tl_combine(node[1], r[n], part[n]);
                        part[n] = tl_identity(node[1]);
                    }
                }
                for (i64 axis = rank - 1; axis >= outer; --axis) {
                    if (++d[axis] < extents[axis]) break;
                    d[axis] = 0;
                }
            }
        }
        for (i32 n = 0; n < count; ++n) {
            TL_GLOBAL const i64 *const node = nodes + TL_NODE * n;
            if (TL_KIND == 5 && TL_LEVEL == 0) tl_node(pointers, params, node, d, r, n);
        }
    }
}
