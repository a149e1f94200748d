/* The grouped sm_90 GEMM: one W for each group of rows (experts, heads), three consumer warpgroups.
 * An output tile has 128 rows of a group, of INT8 and INT4 64. */
#include "backend/cuda/gemm/sm90.cuh"
#include "backend/cuda/weights/dispatch.cuh"

template <int LAYOUT> static int launch_groups(const ln_grouped_args &args, cudaStream_t stream) {
    enum { ROWS = ln_act_tile_rows(LAYOUT), WARPGROUPS = 3 };
    bool has_gate = args.groups.gate.data != NULL;
    if constexpr (LAYOUT == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args.p))
            return has_gate
                       ? launch<sm90_config<LAYOUT, ROWS, WARPGROUPS, true, true, false>>(args,
                                                                                          stream)
                       : launch<sm90_config<LAYOUT, ROWS, WARPGROUPS, false, true, false>>(args,
                                                                                           stream);
    return has_gate
               ? launch<sm90_config<LAYOUT, ROWS, WARPGROUPS, true, false, false>>(args, stream)
               : launch<sm90_config<LAYOUT, ROWS, WARPGROUPS, false, false, false>>(args, stream);
}

static constexpr bool is_grouped(int layout) {
    return layout != LN_LAYOUT_INT8_ROW && layout != LN_LAYOUT_F8_ROW;
}

int ln_gemm_sm90_grouped(int layout, const ln_grouped_args &args, cudaStream_t stream) {
    return ln_dispatch_layout<is_grouped>(
        layout, [&](auto l) { return launch_groups<decltype(l)::LAYOUT>(args, stream); });
}
