/* Linears through cuBLASLt (cublaslt.h), which is opened when it is asked for: the program needs it
 * nowhere else.
 *
 * The library's matrices are columns after columns. So its D [n_out][n_rows] is out, its A the
 * plain rows of W, transposed, and its B x. It adds the residual where a linear has nothing else
 * behind its sums; all else is a kernel's, which reads sums from a buffer: float32, or bf16 of a
 * gate and what it weighs. */
#include "backend/cuda/gemm/cublaslt.h"

#include <stdlib.h>

#include "backend/cuda/activations/store.cuh"
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/plain_rows.h"

#if __has_include(<cublasLt.h>)
#include "backend/cuda/gemm/cublaslt_library.cuh"

enum { MAX_SHAPES = 64, MAX_BUCKETS = 8, MAX_FOUND = 8, THREADS = 256, COLS = 4 * THREADS };
enum { WORKSPACE_BYTES = 32 << 20 };
enum { OUT_F32, OUT_BF16, N_OUTS };

/* A kernel for each bucket of rows: up to LN_CUBLASLT_MIN_ROWS << bucket of them. */
typedef struct shape {
    size_t n_out, cols; /* cols: filled up */
    const void *rows;   /* of one matrix, while it is to be tuned */
    cublasLtMatmulAlgo_t algos[N_OUTS][MAX_BUCKETS];
    bool is_there[N_OUTS][MAX_BUCKETS];
} shape;

struct ln_cublaslt {
    library lib;
    cublasLtHandle_t context;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d[N_OUTS];
    cublasLtMatmulPreference_t preference;
    size_t max_rows;
    char *memory; /* workspace, then [sums_bytes] sums; NULL: steps are too short */
    size_t sums_bytes;
    shape shapes[MAX_SHAPES];
    size_t n_shapes, n_tuned;
};

/* ---- the library ---------------------------------------------------------------------------- */

template <typename T>
static cublasStatus_t prefer(const ln_cublaslt *blas, cublasLtMatmulPreferenceAttributes_t what,
                             T value) {
    return blas->lib.preference_set(blas->preference, what, &value, sizeof value);
}

/* What every product has in common. The runtime's context exists. */
static cublasStatus_t describe(ln_cublaslt *blas) {
    const library *lib = &blas->lib;
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasStatus_t s = lib->create(&blas->context);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->desc_create(&blas->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->desc_set(blas->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->layout_create(&blas->a, CUDA_R_16BF, 1, 1, 1);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->layout_create(&blas->b, CUDA_R_16BF, 1, 1, 1);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->layout_create(&blas->d[OUT_F32], CUDA_R_32F, 1, 1, 1);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->layout_create(&blas->d[OUT_BF16], CUDA_R_16BF, 1, 1, 1);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->preference_create(&blas->preference);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = prefer(blas, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)WORKSPACE_BYTES);
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (size_t i = 0; i < 4 && s == CUBLAS_STATUS_SUCCESS; i++)
        s = prefer(blas, alignments[i], (uint32_t)16);
    return s;
}

ln_cublaslt *ln_cublaslt_create(const char **problem) {
    ln_cublaslt *blas = (ln_cublaslt *)calloc(1, sizeof *blas);
    *problem = "out of memory";
    if (blas == NULL)
        return NULL;
    blas->lib.handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    *problem = library_name;
    if (blas->lib.handle != NULL && load_all(&blas->lib) && describe(blas) == CUBLAS_STATUS_SUCCESS)
        return blas;
    ln_cublaslt_destroy(blas);
    return NULL;
}

void ln_cublaslt_destroy(ln_cublaslt *blas) {
    if (blas == NULL)
        return;
    const library *lib = &blas->lib;
    ln_cuda_free(blas->memory);
    if (blas->preference != NULL)
        (void)lib->preference_destroy(blas->preference);
    cublasLtMatrixLayout_t layouts[] = {blas->a, blas->b, blas->d[OUT_F32], blas->d[OUT_BF16]};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i] != NULL)
            (void)lib->layout_destroy(layouts[i]);
    if (blas->desc != NULL)
        (void)lib->desc_destroy(blas->desc);
    if (blas->context != NULL)
        (void)lib->destroy(blas->context);
    if (lib->handle != NULL)
        (void)dlclose(lib->handle);
    free(blas);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* bf16 of a gate and what it weighs, or float32. */
static size_t sums_bytes(size_t max_tokens, size_t max_width) {
    return max_tokens * max_width * 2 * sizeof(__nv_bfloat16);
}

size_t ln_cublaslt_bytes(size_t max_tokens, size_t max_width) {
    return max_tokens < LN_CUBLASLT_MIN_ROWS ? 0
                                             : WORKSPACE_BYTES + sums_bytes(max_tokens, max_width);
}

int ln_cublaslt_reserve(ln_cublaslt *blas, size_t max_tokens, size_t max_width) {
    void *memory = NULL;
    ln_cuda_free(blas->memory);
    blas->memory = NULL;
    blas->max_rows = max_tokens;
    blas->sums_bytes = sums_bytes(max_tokens, max_width);
    size_t bytes = ln_cublaslt_bytes(max_tokens, max_width);
    int code = bytes > 0 ? ln_cuda_malloc(bytes, &memory) : 0;
    blas->memory = (char *)memory;
    return code;
}

/* ---- products ------------------------------------------------------------------------------- */

/* out = alpha * x W^T + beta * residual */
typedef struct product {
    const void *weight, *x, *residual;
    void *out;
    size_t n_out, cols, n_rows, out_stride;
    int out_type;
    float alpha, beta;
} product;

static int shape_layout(const ln_cublaslt *blas, cublasLtMatrixLayout_t layout, uint64_t rows,
                        uint64_t cols, int64_t stride) {
    const library *lib = &blas->lib;
    cublasStatus_t s = lib->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &cols, sizeof cols);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = lib->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_LD, &stride, sizeof stride);
    return s == CUBLAS_STATUS_SUCCESS ? 0 : cudaErrorInvalidValue;
}

static int shape_layouts(const ln_cublaslt *blas, const product &p) {
    int code = shape_layout(blas, blas->a, p.cols, p.n_out, (int64_t)p.cols);
    if (code == 0)
        code = shape_layout(blas, blas->b, p.cols, p.n_rows, (int64_t)p.cols);
    if (code == 0)
        code = shape_layout(blas, blas->d[p.out_type], p.n_out, p.n_rows, (int64_t)p.out_stride);
    return code;
}

/* Layouts are shaped. */
static int multiply_by(const ln_cublaslt *blas, const product &p, const cublasLtMatmulAlgo_t *algo,
                       ln_cuda_stream stream) {
    const void *c = p.residual != NULL ? p.residual : p.out;
    cublasStatus_t s =
        blas->lib.matmul(blas->context, blas->desc, &p.alpha, p.weight, blas->a, p.x, blas->b,
                         &p.beta, c, blas->d[p.out_type], p.out, blas->d[p.out_type], algo,
                         blas->memory, WORKSPACE_BYTES, stream);
    int code = cudaGetLastError();
    return s == CUBLAS_STATUS_SUCCESS ? 0 : code != 0 ? code : (int)cudaErrorNotSupported;
}

static size_t bucket_of(size_t n_rows) {
    size_t bucket = 0;
    while (((size_t)LN_CUBLASLT_MIN_ROWS << bucket) < n_rows && bucket + 1 < MAX_BUCKETS)
        bucket++;
    return bucket;
}

static shape *find_shape(ln_cublaslt *blas, size_t n_out, size_t cols) {
    for (size_t i = 0; i < blas->n_shapes; i++)
        if (blas->shapes[i].n_out == n_out && blas->shapes[i].cols == cols)
            return &blas->shapes[i];
    return NULL;
}

/* A kernel that the library refuses is not asked for again. */
static int multiply(ln_cublaslt *blas, const product &p, ln_cuda_stream stream) {
    shape *shape = find_shape(blas, p.n_out, p.cols);
    size_t bucket = bucket_of(p.n_rows);
    int code = shape_layouts(blas, p);
    if (code == 0)
        code = multiply_by(blas, p, &shape->algos[p.out_type][bucket], stream);
    if (code == cudaErrorNotSupported)
        shape->is_there[p.out_type][bucket] = false;
    return code;
}

/* ---- choosing kernels ----------------------------------------------------------------------- */

void ln_cublaslt_add(ln_cublaslt *blas, const ln_weight *weight) {
    size_t cols = ln_plain_row_cols(weight->n_cols);
    if (blas->n_shapes == MAX_SHAPES || find_shape(blas, weight->n_rows, cols) != NULL)
        return;
    shape *shape = &blas->shapes[blas->n_shapes++];
    *shape = {};
    shape->n_out = weight->n_rows;
    shape->cols = cols;
    shape->rows = ln_plain_rows_of(weight);
}

/* The shortest of a few runs, in nanoseconds. */
static int time_kernel(const ln_cublaslt *blas, const product &p, const cublasLtMatmulAlgo_t *algo,
                       ln_cuda_event events[2], ln_cuda_stream stream, double *best) {
    enum { N_RUNS = 4 };
    int code = 0;
    for (int i = 0; i < N_RUNS && code == 0; i++) {
        double ns = 0;
        code = ln_cuda_event_record(events[0], stream);
        if (code == 0)
            code = multiply_by(blas, p, algo, stream);
        if (code == 0)
            code = ln_cuda_event_record(events[1], stream);
        if (code == 0)
            code = ln_cuda_event_synchronize(events[1]);
        if (code == 0)
            code = ln_cuda_event_elapsed_ns(events[0], events[1], &ns);
        if (code == 0 && (i == 1 || (i > 1 && ns < *best))) /* the first loads code */
            *best = ns;
    }
    return code;
}

/* The best of what the library proposes for as many rows as the bucket has at most. */
static int tune_bucket(const ln_cublaslt *blas, shape *shape, size_t bucket, int out_type, void *x,
                       ln_cuda_event events[2], ln_cuda_stream stream) {
    cublasLtMatmulHeuristicResult_t found[MAX_FOUND];
    size_t n_rows = (size_t)LN_CUBLASLT_MIN_ROWS << bucket;
    size_t fit = blas->sums_bytes / (shape->n_out * sizeof(float));
    n_rows = n_rows < blas->max_rows && bucket + 1 < MAX_BUCKETS ? n_rows : blas->max_rows;
    if (n_rows == 0 || n_rows > fit) /* tiles serve it */
        return 0;
    product p = {shape->rows,  x,           NULL,   blas->memory + WORKSPACE_BYTES,
                 shape->n_out, shape->cols, n_rows, shape->n_out,
                 out_type,     1.0f,        0.0f};
    int n_found = 0, code = shape_layouts(blas, p);
    if (code != 0 || blas->lib.find(blas->context, blas->desc, blas->a, blas->b, blas->d[out_type],
                                    blas->d[out_type], blas->preference, MAX_FOUND, found,
                                    &n_found) != CUBLAS_STATUS_SUCCESS)
        return code;
    double least = 0;
    for (int i = 0; i < n_found; i++) {
        double ns = 0;
        if (found[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        code = time_kernel(blas, p, &found[i].algo, events, stream, &ns);
        if (code == cudaErrorNotSupported)
            continue;
        if (code != 0)
            return code;
        if (shape->is_there[out_type][bucket] && ns >= least)
            continue;
        least = ns;
        shape->algos[out_type][bucket] = found[i].algo;
        shape->is_there[out_type][bucket] = true;
    }
    return 0;
}

/* Rows of x that are no worse than a model's: those of the matrix, again and again. */
static int fill_x(const ln_cublaslt *blas, const shape *shape, void *x, ln_cuda_stream stream) {
    size_t bytes = blas->max_rows * shape->cols * sizeof(__nv_bfloat16);
    size_t from = shape->n_out * shape->cols * sizeof(__nv_bfloat16);
    int code = 0;
    for (size_t done = 0; done < bytes && code == 0; done += from)
        code = ln_cuda_copy_any((char *)x + done, shape->rows,
                                bytes - done < from ? bytes - done : from, stream);
    return code;
}

int ln_cublaslt_tune(ln_cublaslt *blas, const ln_converted_act *x, ln_cuda_stream stream) {
    void *rows = ln_act_view_of(x).bf16;
    ln_cuda_event events[2] = {};
    if (blas->n_tuned == blas->n_shapes || blas->memory == NULL)
        return 0;
    int code = ln_cuda_event_create(&events[0]);
    if (code == 0)
        code = ln_cuda_event_create(&events[1]);
    for (; blas->n_tuned < blas->n_shapes && code == 0; blas->n_tuned++) {
        shape *shape = &blas->shapes[blas->n_tuned];
        code = fill_x(blas, shape, rows, stream);
        for (size_t bucket = 0; bucket <= bucket_of(blas->max_rows); bucket++)
            for (int type = 0; type < N_OUTS && code == 0; type++)
                code = tune_bucket(blas, shape, bucket, type, rows, events, stream);
    }
    for (size_t i = 0; i < 2; i++)
        ln_cuda_event_destroy(events[i]);
    return code;
}

/* ---- linears -------------------------------------------------------------------------------- */

/* Whether nothing but a residual, whose rows lie as those of the result, comes behind the sums. */
static bool is_plain(const ln_op_linear *p) {
    bool is_alike = p->residual == NULL || p->out_stride == 0 || p->out_stride == p->weight->n_rows;
    return is_alike && p->gate == NULL && p->weight->bias == NULL && p->activation == LN_ACT_NONE &&
           !(p->softcap > 0.0f);
}

/* Whether finish can take four columns at once, and the library rows of the result. */
static bool is_aligned(const ln_epilogue &e) {
    size_t at = (size_t)e.out | (size_t)e.residual | (size_t)e.bias | (size_t)e.gate_bias;
    return at % 16 == 0 && e.n_out % 8 == 0 && e.out_stride % 8 == 0;
}

static bool takes(ln_cublaslt *blas, const ln_op_linear *p) {
    const ln_weight *w = p->weight;
    if (w->layout != LN_LAYOUT_BF16 || p->n_rows < LN_CUBLASLT_MIN_ROWS || p->rows_per_x > 1)
        return false;
    const shape *shape = find_shape(blas, w->n_rows, ln_plain_row_cols(w->n_cols));
    int type = p->gate != NULL ? OUT_BF16 : OUT_F32;
    ln_gemm_part part = ln_gemm_make_part(p);
    bool fits = is_plain(p) || w->n_rows * p->n_rows * sizeof(float) <= blas->sums_bytes;
    return shape != NULL && shape->is_there[type][bucket_of(p->n_rows)] && fits &&
           p->n_rows <= blas->max_rows && is_aligned(part.epilogue);
}

bool ln_cublaslt_takes(ln_cublaslt *blas, const ln_op *ops, size_t n_ops) {
    bool all = blas != NULL && blas->memory != NULL;
    for (size_t i = 0; i < n_ops && all; i++)
        all = takes(blas, &ops[i].linear);
    return all;
}

typedef struct finish_args {
    ln_epilogue e;
    const void *sums;  /* float32 [n_rows][n_out]; with a gate bf16 */
    const void *gates; /* bf16 [n_rows][n_out] */
    bool converts;
    ln_act_view to;
} finish_args;

static __device__ __forceinline__ float4 load_four_bf16(const void *from, size_t at) {
    uint2 bits = *(const uint2 *)((const uint16_t *)from + at);
    return make_float4(ln_bf16((uint16_t)bits.x), ln_bf16((uint16_t)(bits.x >> 16)),
                       ln_bf16((uint16_t)bits.y), ln_bf16((uint16_t)(bits.y >> 16)));
}

/* Grid: blocks of COLS columns, row after row; a thread for four columns. */
static __global__ void finish(const __grid_constant__ finish_args p) {
    ln_pdl_launch_and_wait();
    unsigned per_row = ((unsigned)p.e.n_out + COLS - 1) / COLS;
    size_t row = blockIdx.x / per_row, col = blockIdx.x % per_row * COLS + 4 * threadIdx.x;
    if (col >= p.e.n_out)
        return;
    size_t at = row * p.e.n_out + col;
    float4 u, g = {};
    if (p.e.has_gate) {
        u = load_four_bf16(p.sums, at);
        g = load_four_bf16(p.gates, at);
    } else {
        u = *(const float4 *)((const float *)p.sums + at);
    }
    ln_finish_four(p.e, row, col, u, g);
    if (!p.converts)
        return;
    float4 y = *(const float4 *)(p.e.out + row * p.e.out_stride + col); /* this thread's own */
    float four[4] = {y.x, y.y, y.z, y.w};
    ln_act_store(p.to, row, col, four);
}

/* What lies behind the sums of a linear; `x` becomes its result where that can be. */
static int finish_linear(const ln_op_linear *p, const void *sums, const void *gates,
                         ln_converted_act *x, ln_cuda_stream stream) {
    finish_args args = {};
    args.e = ln_gemm_make_part(p).epilogue;
    args.sums = sums;
    args.gates = gates;
    args.converts = x != NULL && args.e.n_out == ln_plain_row_cols(args.e.n_out);
    if (args.converts) {
        x->of = p->out;
        x->n_rows = p->n_rows;
        x->n_cols = args.e.n_out;
        x->stride = args.e.out_stride;
        x->is_int8 = x->is_f8 = x->by_row = x->precise = x->in_tiles = false;
        args.to = ln_act_view_of(x);
    }
    unsigned grid = (unsigned)(ln_ceil_div(args.e.n_out, COLS) * p->n_rows);
    return ln_pdl_launch(finish, dim3(grid), THREADS, 0, stream, args);
}

static int run_linear(ln_cublaslt *blas, const ln_op_linear *p, bool is_last, ln_converted_act *x,
                      ln_cuda_stream stream) {
    char *sums = blas->memory + WORKSPACE_BYTES;
    size_t n_out = p->weight->n_rows, cols = ln_plain_row_cols(p->weight->n_cols);
    product q = {ln_plain_rows_of(p->weight),
                 ln_act_view_of(x).bf16,
                 NULL,
                 sums,
                 n_out,
                 cols,
                 p->n_rows,
                 n_out,
                 OUT_F32,
                 1.0f,
                 0.0f};
    if (is_plain(p)) {
        q.residual = p->residual;
        q.out = p->out;
        q.out_stride = p->out_stride > 0 ? p->out_stride : n_out;
        q.alpha = p->scale;
        q.beta = p->residual != NULL ? 1.0f : 0.0f;
        return multiply(blas, q, stream);
    }
    if (p->gate == NULL) {
        int code = multiply(blas, q, stream);
        return code != 0 ? code : finish_linear(p, sums, NULL, NULL, stream);
    }
    char *gates = sums + n_out * p->n_rows * sizeof(__nv_bfloat16);
    q.out_type = OUT_BF16;
    int code = multiply(blas, q, stream);
    q.weight = ln_plain_rows_of(p->gate);
    q.out = gates;
    if (code == 0)
        code = multiply(blas, q, stream);
    return code != 0 ? code : finish_linear(p, sums, gates, is_last ? x : NULL, stream);
}

int ln_cublaslt_linears(ln_cublaslt *blas, const ln_op *ops, size_t n_ops, ln_converted_act *x,
                        ln_cuda_stream stream) {
    int code = 0;
    for (size_t i = 0; i < n_ops && code == 0; i++)
        code = run_linear(blas, &ops[i].linear, i + 1 == n_ops, x, stream);
    return code;
}

#else

ln_cublaslt *ln_cublaslt_create(const char **problem) {
    *problem = "this build was made without cublasLt.h";
    return NULL;
}

void ln_cublaslt_destroy(ln_cublaslt *) {}

size_t ln_cublaslt_bytes(size_t, size_t) {
    return 0;
}

int ln_cublaslt_reserve(ln_cublaslt *, size_t, size_t) {
    return 0;
}

void ln_cublaslt_add(ln_cublaslt *, const ln_weight *) {}

int ln_cublaslt_tune(ln_cublaslt *, const ln_converted_act *, ln_cuda_stream) {
    return 0;
}

bool ln_cublaslt_takes(ln_cublaslt *, const ln_op *, size_t) {
    return false;
}

int ln_cublaslt_linears(ln_cublaslt *, const ln_op *, size_t, ln_converted_act *, ln_cuda_stream) {
    return 0;
}

#endif
