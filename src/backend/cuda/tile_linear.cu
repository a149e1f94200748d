/* y = x W^T with its epilogue, W in tiles (tiles.h), on tensor cores: the tiles are the A operand
 * of mma.sync, rows of x the B operand, eight at a time.
 *
 * Grid: (rows of tiles, rows of x by 8 * GROUPS). Block: eight warps, each a slice of the columns,
 * merged in order through shared memory. A lane reads 16 bytes at a time and a warp 512 in a row;
 * weights are read once for 8 * GROUPS rows of x, x comes from the caches. */
#include "backend/cuda/epilogue.cuh"
#include "backend/cuda/tile_x.cuh"

enum { TILE_THREADS = LN_TILE_SLICES * LN_WARP, MAX_GROUPS = 8 };

typedef struct tile_args {
    const uint8_t *weight, *gate; /* gate NULL: none */
    size_t n_tiles;               /* along the columns */
    size_t n_rows, rows_per_x;
    ln_tile_x_parts x;
    ln_epilogue epilogue;
} tile_args;

static __device__ __forceinline__ uint4 load_streamed(const uint8_t *at) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

static __device__ __forceinline__ uint32_t word_of(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* ---- a lane's share of a tile ------------------------------------------------------------- */

template <int KIND> struct lane_tile;
template <> struct lane_tile<LN_TILE_BF16> {
    uint4 steps[4];
};
template <> struct lane_tile<LN_TILE_INT8> {
    uint4 blocks[8], scales[2];
};
template <> struct lane_tile<LN_TILE_INT4> {
    uint4 blocks[4], scales[2];
};

template <int KIND>
static __device__ __forceinline__ void load_tile(const uint8_t *tile, unsigned lane,
                                                 lane_tile<KIND> &out) {
    if constexpr (KIND == LN_TILE_BF16) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            out.steps[i] = load_streamed(tile + (i * LN_WARP + lane) * 16);
    } else {
        constexpr int N = sizeof out.blocks / sizeof *out.blocks;
#pragma unroll
        for (int i = 0; i < N; i++)
            out.blocks[i] = load_streamed(tile + (i * LN_WARP + lane) * 16);
        out.scales[0] = load_streamed(tile + N * 512 + lane / 4 * 16);
        out.scales[1] = load_streamed(tile + N * 512 + (lane / 4 + 8) * 16);
    }
}

/* ---- products ------------------------------------------------------------------------------ */

static __device__ __forceinline__ void mma_bf16(float c[4], const uint4 &a, uint32_t b0,
                                                uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/* Sums of at most 2^22 in magnitude, as floats: the products are added to the bits of 1.5 * 2^23. */
static __device__ __forceinline__ void mma_int8(float c[4], const uint4 &a, uint32_t b0,
                                                uint32_t b1) {
    const int start = 0x4b400000;
    int bits[4];
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "r"(start));
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[i] = __int_as_float(bits[i]) - 12582912.0f;
}

/* The A operand of a block of INT8 or INT4. */
template <int KIND>
static __device__ __forceinline__ uint4 block_of(const lane_tile<KIND> &tile, int block) {
    if constexpr (KIND == LN_TILE_INT8) {
        return tile.blocks[block];
    } else {
        uint4 pair = tile.blocks[block / 2];
        uint32_t first = block % 2 ? pair.z : pair.x, second = block % 2 ? pair.w : pair.y;
        return make_uint4(first << 4 & 0xf0f0f0f0u, first & 0xf0f0f0f0u, second << 4 & 0xf0f0f0f0u,
                          second & 0xf0f0f0f0u);
    }
}

static __device__ __forceinline__ float scale_of(const uint4 &scales, int block) {
    return ln_f16((uint16_t)(word_of(scales, block / 2) >> block % 2 * 16));
}

static __device__ __forceinline__ size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Adds a tile's products with eight rows of x from row `first` on. Rows past the last one repeat
 * it: what comes of them is not written. */
template <int KIND>
static __device__ __forceinline__ void add_tile(const tile_args &p, const lane_tile<KIND> &tile,
                                                size_t index, size_t first, size_t last_row,
                                                float sum[4]) {
    unsigned lane = threadIdx.x % LN_WARP, g = lane / 4, t = lane % 4;
    size_t row = smaller(first + g, last_row) / p.rows_per_x;
    size_t col = index * ln_tile_cols(KIND);
    if constexpr (KIND == LN_TILE_BF16) {
        const uint4 *x = (const uint4 *)(p.x.bf16 + row * p.x.cols + col + t * 8);
        uint4 b[2] = {__ldg(x), __ldg(x + 4)};
#pragma unroll
        for (int block = 0; block < 2; block++) {
            mma_bf16(sum, tile.steps[block * 2], b[block].x, b[block].y);
            mma_bf16(sum, tile.steps[block * 2 + 1], b[block].z, b[block].w);
        }
        if (p.x.rest == NULL)
            return;
        x = (const uint4 *)(p.x.rest + row * p.x.cols + col + t * 8);
        uint4 rest[2] = {__ldg(x), __ldg(x + 4)};
#pragma unroll
        for (int block = 0; block < 2; block++) {
            mma_bf16(sum, tile.steps[block * 2], rest[block].x, rest[block].y);
            mma_bf16(sum, tile.steps[block * 2 + 1], rest[block].z, rest[block].w);
        }
    } else {
        size_t row0 = smaller(first + t * 2, last_row) / p.rows_per_x;
        size_t row1 = smaller(first + t * 2 + 1, last_row) / p.rows_per_x;
        const uint4 *x = (const uint4 *)(p.x.int8 + row * p.x.cols + col + t * 16);
        const float4 *s0 = (const float4 *)(p.x.scales + (row0 * p.x.cols + col) / LN_TILE_BLOCK);
        const float4 *s1 = (const float4 *)(p.x.scales + (row1 * p.x.cols + col) / LN_TILE_BLOCK);
        uint4 b[4] = {__ldg(x), __ldg(x + 4), __ldg(x + 8), __ldg(x + 12)};
        float4 x0[2] = {__ldg(s0), __ldg(s0 + 1)}, x1[2] = {__ldg(s1), __ldg(s1 + 1)};
#pragma unroll
        for (int block = 0; block < 8; block++) {
            uint4 two = b[block / 2];
            float c[4], w0 = scale_of(tile.scales[0], block), w1 = scale_of(tile.scales[1], block);
            float c0 = ((const float *)&x0[block / 4])[block % 4];
            float c1 = ((const float *)&x1[block / 4])[block % 4];
            mma_int8(c, block_of<KIND>(tile, block), block % 2 ? two.z : two.x,
                     block % 2 ? two.w : two.y);
            sum[0] = fmaf(w0 * c0, c[0], sum[0]);
            sum[1] = fmaf(w0 * c1, c[1], sum[1]);
            sum[2] = fmaf(w1 * c0, c[2], sum[2]);
            sum[3] = fmaf(w1 * c1, c[3], sum[3]);
        }
    }
}

/* ---- the kernel ---------------------------------------------------------------------------- */

/* This warp's slice of a row of tiles with 8 * GROUPS rows of x. AHEAD tiles are under way. */
template <int KIND, int GROUPS, int AHEAD>
static __device__ __forceinline__ void multiply(const tile_args &p, const uint8_t *matrix,
                                                size_t first, float sum[GROUPS][4]) {
    unsigned lane = threadIdx.x % LN_WARP, slice = threadIdx.x / LN_WARP;
    size_t per_slice = (p.n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
    size_t begin = smaller(slice * per_slice, p.n_tiles);
    size_t end = smaller(begin + per_slice, p.n_tiles);
    const uint8_t *tiles = matrix + blockIdx.x * p.n_tiles * ln_tile_bytes(KIND);
    lane_tile<KIND> ahead[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (begin + i < end)
            load_tile<KIND>(tiles + (begin + i) * ln_tile_bytes(KIND), lane, ahead[i]);
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[group][i] = 0.0f;
    for (size_t base = begin; base < end; base += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            size_t index = base + i;
            if (index >= end)
                break;
#pragma unroll
            for (int group = 0; group < GROUPS; group++)
                add_tile<KIND>(p, ahead[i], index, first + group * 8, p.n_rows - 1, sum[group]);
            if (index + AHEAD < end)
                load_tile<KIND>(tiles + (index + AHEAD) * ln_tile_bytes(KIND), lane, ahead[i]);
        }
    }
}

template <int GROUPS> struct slices {
    float sums[LN_TILE_SLICES][LN_TILE_ROWS][8 * GROUPS + 1];
};

/* Merges the slices in order: total[i] is that of element threadIdx.x + i * TILE_THREADS of
 * [8 * GROUPS rows of x][16 rows of tiles]. */
template <int GROUPS>
static __device__ __forceinline__ void merge(slices<GROUPS> &shared, const float sum[GROUPS][4],
                                             float *total) {
    unsigned lane = threadIdx.x % LN_WARP, slice = threadIdx.x / LN_WARP;
    __syncthreads();
#pragma unroll
    for (int group = 0; group < GROUPS; group++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            shared.sums[slice][lane / 4 + i / 2 * 8][group * 8 + lane % 4 * 2 + i % 2] =
                sum[group][i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (GROUPS + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * TILE_THREADS;
        unsigned row = element / LN_TILE_ROWS, column = element % LN_TILE_ROWS;
        if (row >= 8 * GROUPS)
            continue;
        total[i] = shared.sums[0][column][row];
#pragma unroll
        for (int s = 1; s < LN_TILE_SLICES; s++)
            total[i] += shared.sums[s][column][row];
    }
}

template <int KIND, int GROUPS, int AHEAD>
static __global__ void __launch_bounds__(TILE_THREADS, GROUPS == 1 ? 2 : 1)
    tile_linear(const __grid_constant__ tile_args p) {
    __shared__ slices<GROUPS> shared;
    float sum[GROUPS][4], up[(GROUPS + 1) / 2] = {}, gate[(GROUPS + 1) / 2] = {};
    size_t first = (size_t)blockIdx.y * 8 * GROUPS;
    if (p.gate != NULL) {
        multiply<KIND, GROUPS, AHEAD>(p, p.gate, first, sum);
        merge<GROUPS>(shared, sum, gate);
    }
    multiply<KIND, GROUPS, AHEAD>(p, p.weight, first, sum);
    merge<GROUPS>(shared, sum, up);
#pragma unroll
    for (int i = 0; i < (GROUPS + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * TILE_THREADS;
        size_t row = first + element / LN_TILE_ROWS;
        size_t column = (size_t)blockIdx.x * LN_TILE_ROWS + element % LN_TILE_ROWS;
        if (element < 8 * GROUPS * LN_TILE_ROWS && row < p.n_rows && column < p.epilogue.n_out)
            ln_finish(p.epilogue, row, column, up[i], gate[i]);
    }
}

/* ---- launching ------------------------------------------------------------------------------ */

template <int KIND, int GROUPS, int AHEAD>
static int launch(const tile_args &args, cudaStream_t stream) {
    dim3 grid(ln_ceil_div(args.epilogue.n_out, LN_TILE_ROWS),
              ln_ceil_div(args.n_rows, 8 * GROUPS));
    tile_linear<KIND, GROUPS, AHEAD><<<grid, TILE_THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

template <int KIND, int AHEAD> static int launch_rows(const tile_args &args, cudaStream_t stream) {
    if (args.n_rows <= 8)
        return launch<KIND, 1, AHEAD>(args, stream);
    if (args.n_rows <= 16)
        return launch<KIND, 2, AHEAD>(args, stream);
    if (args.n_rows <= 32)
        return launch<KIND, 4, 1>(args, stream);
    return launch<KIND, MAX_GROUPS, 1>(args, stream);
}

bool ln_cuda_takes_tiles(const ln_op_linear *p) {
    return p->weight->layout != LN_TILE_NONE && p->groups.n_groups == 0 &&
           (p->gate == NULL || p->gate->layout == p->weight->layout);
}

/* Converts x, unless it is what was converted last. */
static int convert(const ln_op_linear *p, bool is_int8, ln_tile_x *kept, cudaStream_t stream) {
    size_t rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1, n_cols = p->weight->n_cols;
    size_t stride = p->x_stride > 0 ? p->x_stride : n_cols;
    size_t n_rows = (p->n_rows + rows_per_x - 1) / rows_per_x;
    bool precise = p->precise && !is_int8;
    if (kept->of == p->x && kept->n_rows == n_rows && kept->n_cols == n_cols &&
        kept->stride == stride && kept->is_int8 == is_int8 && kept->precise == precise)
        return 0;
    ln_tile_x now = {kept->memory, p->x, n_rows, n_cols, stride, is_int8, precise};
    *kept = now;
    return ln_tile_x_convert(p->x, stride, is_int8, precise, n_rows, n_cols, kept->memory, stream);
}

int ln_cuda_tile_linear(const ln_op_linear *p, ln_tile_x *x, ln_cuda_stream stream) {
    int kind = (int)p->weight->layout;
    if (p->n_rows == 0)
        return 0;
    int code = convert(p, kind != LN_TILE_BF16, x, stream);
    if (code != 0)
        return code;
    tile_args args = {};
    args.weight = (const uint8_t *)p->weight->data;
    args.gate = p->gate != NULL ? (const uint8_t *)p->gate->data : NULL;
    args.x = ln_tile_x_divide(x->memory, x->is_int8, x->precise, x->n_rows, x->n_cols);
    args.n_tiles = args.x.cols / ln_tile_cols(kind);
    args.n_rows = p->n_rows;
    args.rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    args.epilogue.bias = p->weight->bias;
    args.epilogue.gate_bias = p->gate != NULL ? p->gate->bias : NULL;
    args.epilogue.has_gate = p->gate != NULL;
    args.epilogue.activation = p->activation;
    args.epilogue.residual = p->residual;
    args.epilogue.scale = p->scale;
    args.epilogue.softcap = p->softcap;
    args.epilogue.n_out = p->weight->n_rows;
    args.epilogue.out_stride = p->out_stride > 0 ? p->out_stride : p->weight->n_rows;
    args.epilogue.out = p->out;
    switch (kind) {
    case LN_TILE_BF16: return launch_rows<LN_TILE_BF16, 2>(args, stream);
    case LN_TILE_INT8: return launch_rows<LN_TILE_INT8, 1>(args, stream);
    default: return launch_rows<LN_TILE_INT4, 2>(args, stream);
    }
}
