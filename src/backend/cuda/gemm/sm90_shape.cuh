/* Dense sm_90 GEMMs: which rows an output tile has, and how many CTAs share one, by a model of the
 * clocks that the busiest CTA takes. */
#ifndef LN_BACKEND_CUDA_GEMM_SM90_SHAPE_CUH
#define LN_BACKEND_CUDA_GEMM_SM90_SHAPE_CUH

#include "backend/cuda/gemm/sm90_split_k.cuh"
#include "backend/cuda/runtime/sm_count.cuh"

typedef struct tile_shape {
    unsigned rows, n_ctas;
    bool is_n64; /* 64 columns, by one consumer warpgroup */
} tile_shape;

/* The clocks at output tiles of `rows` rows by `columns` columns that n_ctas CTAs share, where
 * there is no gate, if a weight tile's K takes per_tile; UINT32_MAX where CTAs cannot share. */
static inline unsigned count_clocks(const ln_gemm_args &p, const tile_shape &shape,
                                    unsigned columns, unsigned n_sms, unsigned per_tile) {
    enum { REDUCE_CLOCKS = 3000, REDUCED_PER_CLOCK = 200 /* sums that are written and read */ };
    unsigned n_column_tiles = ln_gemm_output_tiles(p, columns);
    unsigned n_output = n_column_tiles * ln_ceil_div(p.n_rows, shape.rows);
    unsigned per_split = ln_ceil_div(p.n_tiles, LN_K_SPLITS);
    if (shape.n_ctas == 1)
        return ln_ceil_div(n_output, n_sms) * p.n_tiles * per_tile;
    unsigned n_tiles = per_split * (LN_K_SPLITS / shape.n_ctas); /* of a CTA */
    bool is_whole = (LN_K_SPLITS - 1) * per_split < p.n_tiles;   /* no K split is empty */
    bool has_room =
        n_output * LN_K_SPLITS * shape.rows * columns <= ln_split_k_sizes_of(n_sms).n_floats;
    if (n_output * shape.n_ctas > n_sms || !is_whole || !has_room)
        return UINT32_MAX;
    unsigned n_rows = ln_ceil_div(p.n_rows, 8) * 8, n_reduced = LN_K_SPLITS * n_rows;
    return n_tiles * per_tile + REDUCE_CLOCKS +
           n_column_tiles * columns * n_reduced / REDUCED_PER_CLOCK;
}

/* Row tiles of a band. As many CTAs as run at a time take a few rows times a few columns of output
 * tiles, of bands of ten fewest bytes in all. */
static inline unsigned choose_band(unsigned n_row_tiles) {
    enum { BAND = 10, MOST = 16 };
    return n_row_tiles > MOST ? (unsigned)BAND : n_row_tiles;
}

/* Whether the 16-bit and FP8 mainloops have kernels for so many rows, and split-K kernels. FP8 has
 * none of 256: there is room for three stages then, and it became slower. */
static constexpr bool has_rows(int layout, bool precise, unsigned rows) {
    bool is_fp8 = layout == LN_LAYOUT_F8_ROW;
    bool is_many = is_fp8 || (layout == LN_LAYOUT_BF16 && !precise);
    return rows == 128 || rows == 192 || (is_many && (rows == 176 || rows == 208)) ||
           (is_fp8 && rows == 64) || (!is_fp8 && !precise && rows == 256);
}

static constexpr bool can_split_k(bool gate, unsigned rows) {
    return !gate && rows % REDUCED_ROWS == 0;
}

/* Whether there are kernels of output tiles of 64 columns, too: twice as many CTAs have work where
 * a linear has few of the others. */
static constexpr bool has_n64(int layout, bool gate, unsigned rows) {
    return (layout == LN_LAYOUT_BF16 || layout == LN_LAYOUT_Q4 || layout == LN_LAYOUT_F8_ROW) &&
           !gate && rows == 128;
}

/* The clocks of a weight tile's K, four steps of 16 columns: what shared memory takes. Of BF16 a
 * tile of 256 rows takes longer, as measured. */
static inline unsigned clocks_per_tile(int layout, unsigned rows) {
    enum { BF16_256_ROWS = 1180 };
    return layout == LN_LAYOUT_BF16 && rows == 256 ? (unsigned)BF16_256_ROWS : 256 + 3 * rows;
}

/* The shape that takes least. A tile of 64 columns takes 0.8 times as long as one of 128, of Q4
 * 0.85 times, of FP8 0.7 times, as measured. Up to MAX_SHARED_ROWS CTAs share tiles instead. */
static inline int choose_shape(int layout, bool precise, const ln_gemm_args &args,
                               tile_shape *shape) {
    enum { MAX_SHARED_ROWS = 192, N64_ROWS = 128 };
    static const unsigned sizes[] = {64, 128, 176, 192, 208, 256};
    bool has_gate = args.parts[0].gate != NULL;
    unsigned n_sms, least = UINT32_MAX, columns = has_gate ? 64 : 128;
    int code = ln_count_sms(&n_sms);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes && code == 0; i++)
        for (unsigned n = 1; n <= (can_split_k(has_gate, sizes[i]) ? 4 : 1); n *= 2) {
            tile_shape tried = {sizes[i], n, false};
            unsigned clocks =
                count_clocks(args, tried, columns, n_sms, clocks_per_tile(layout, sizes[i]));
            if (has_rows(layout, precise, sizes[i]) && clocks < least)
                least = clocks, *shape = tried;
        }
    tile_shape n64 = {N64_ROWS, 1, true};
    unsigned n64_clocks = layout == LN_LAYOUT_Q4 ? 544 : layout == LN_LAYOUT_F8_ROW ? 440 : 512;
    if (code == 0 && has_n64(layout, has_gate, N64_ROWS) && args.n_rows > MAX_SHARED_ROWS &&
        count_clocks(args, n64, 64, n_sms, n64_clocks) < least)
        *shape = n64;
    return code;
}

#endif
