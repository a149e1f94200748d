/* The dense sm_90 GEMM of INT8 and INT4 (output tiles of 64 rows, three consumer warpgroups) and of
 * INT8_ROW (W8A8 with row scales: 256 rows, two of them; one, where more CTAs have work so). */
#include "backend/cuda/gemm/sm90.cuh"
#include "backend/cuda/weights/dispatch.cuh"

template <int LAYOUT> static int launch_blocks(const ln_gemm_args &args, cudaStream_t stream) {
    enum { TILE_CLOCKS = 4300, WARPGROUPS = 3 }; /* by the rate of long prompts */
    typedef sm90_config<LAYOUT, INT_ROWS, WARPGROUPS, false, false, false> config;
    if (args.parts[0].gate != NULL)
        return launch<sm90_config<LAYOUT, INT_ROWS, WARPGROUPS, true, false, false>>(args, 1,
                                                                                     stream);
    unsigned n_sms, n_ctas = 1, least = UINT32_MAX;
    int code = ln_count_sms(&n_sms);
    for (unsigned n = 1; n <= 4 && code == 0; n *= 2) {
        tile_shape tried = {INT_ROWS, n, false};
        unsigned clocks = count_clocks(args, tried, config::N_COLUMNS, n_sms, TILE_CLOCKS);
        if (clocks < least)
            least = clocks, n_ctas = n;
    }
    if (code != 0)
        return code;
    return n_ctas > 1 ? launch<sm90_config<LAYOUT, INT_ROWS, WARPGROUPS, false, false, true>>(
                            args, n_ctas, stream)
                      : launch<config>(args, 1, stream);
}

static constexpr bool has_block_scales(int layout) {
    return ln_traits_of(layout).acts == LN_ACT_TYPE_INT8_BLOCK;
}

int ln_gemm_sm90_int(int layout, const ln_gemm_args &args, cudaStream_t stream) {
    return ln_dispatch_layout<has_block_scales>(
        layout, [&](auto l) { return launch_blocks<decltype(l)::LAYOUT>(args, stream); });
}

/* Linears of INT8_ROW without a gate: output tiles of 64 columns where these take fewer clocks. */
static int launch_int8_row(const ln_gemm_args &args, cudaStream_t stream) {
    enum { TILE_CLOCKS = 1140, N64_CLOCKS = 760 }; /* by the rates of 256 rows on an H200 */
    constexpr int ROWS = ln_act_tile_rows(LN_LAYOUT_INT8_ROW);
    static const tile_shape n128 = {ROWS, 1, false}, n64 = {ROWS, 1, true};
    unsigned n_sms;
    int code = ln_count_sms(&n_sms);
    if (code != 0)
        return code;
    if (count_clocks(args, n64, 64, n_sms, N64_CLOCKS) <
        count_clocks(args, n128, 128, n_sms, TILE_CLOCKS))
        return launch<sm90_config<LN_LAYOUT_INT8_ROW, ROWS, 1, false, false, false>>(args, 1,
                                                                                     stream);
    return launch<sm90_config<LN_LAYOUT_INT8_ROW, ROWS, 2, false, false, false>>(args, 1, stream);
}

int ln_gemm_sm90_int8_row(const ln_gemm_args &args, cudaStream_t stream) {
    constexpr int ROWS = ln_act_tile_rows(LN_LAYOUT_INT8_ROW);
    return args.parts[0].gate != NULL
               ? launch<sm90_config<LN_LAYOUT_INT8_ROW, ROWS, 2, true, false, false>>(args, 1,
                                                                                      stream)
               : launch_int8_row(args, stream);
}
