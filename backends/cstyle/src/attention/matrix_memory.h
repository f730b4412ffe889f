    /* Blocks of keys, then of values. Rows are an odd number of 16 bytes apart, so that eight of them hit different banks. */
    TL_LOCAL __align__(16) tl_in staged[TL_STAGES * TL_KEYS * (TL_K_PITCH + TL_V_PITCH)];
    tl_in *const staged_values = staged + TL_STAGES * TL_KEYS * TL_K_PITCH;
    const i32 lane = TL_ITEM % 32;
    /* The row of keys that the lane tells of, and which 16 bytes of it. */
    const i32 own_keys = (lane / 16 * 8 + lane % 8) * TL_K_PITCH + lane / 8 % 2 * TL_CHUNK;
    /* Scores become powers of two. Queries take the sign of the scale, so that the largest score has the largest weight. */
    const f32 sign = scale < 0 ? -1 : scale == 0 ? 0 : 1, size = scale == 0 ? 1 : scale * sign;
    const f32 steep = TL_ADDED ? TL_LOG2_E : size * TL_LOG2_E;
