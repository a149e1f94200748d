/* What the kernels for many rows by group share: blocks as in scheduler.cuh, whose jobs are a slot
 * of rows (a panel of x) and a block of the columns of its group's matrix. Slots come in a list
 * that one kernel makes. */
#ifndef LN_BACKEND_CUDA_GEMM_GROUPED_SCHEDULER_CUH
#define LN_BACKEND_CUDA_GEMM_GROUPED_SCHEDULER_CUH

#include "backend/cuda/gemm/groups.cuh"
#include "backend/cuda/gemm/scheduler.cuh"

/* The matrices of all groups are one tensor, x another one of rows of 128 bytes. */
typedef struct group_gemm_args {
    ln_grouped_args a;
    CUtensorMap x, beside, gate, weight; /* beside: what goes with x */
} group_gemm_args;

/* Row of tiles after row of tiles, group after group, in boxes of `rows` and a tile of columns. */
static int map_matrices(int kind, const ln_grouped_args &a, const ln_matrices &m, unsigned rows,
                        CUtensorMap *map) {
    unsigned tile_bytes = (unsigned)ln_weight_tile_bytes(kind);
    ln_tensor tensor = {};
    tensor.data = (void *)m.data;
    tensor.type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    tensor.n_dims = 4;
    tensor.dims[0] = tensor.box[0] = tensor.strides[0] = 128;
    tensor.dims[1] = (size_t)a.p.n_tiles * (tile_bytes / 128);
    tensor.dims[2] = ln_ceil_div(a.p.parts[0].epilogue.n_out, LN_WEIGHT_TILE_ROWS);
    tensor.dims[3] = a.groups.n_groups;
    tensor.strides[1] = ln_weight_tile_row_bytes(kind, a.p.n_tiles);
    tensor.strides[2] = m.data_stride > 0 ? m.data_stride : 128;
    tensor.box[1] = tile_bytes / 128;
    tensor.box[2] = rows;
    tensor.box[3] = 1;
    return ln_tensor_map(&tensor, map);
}

/* Maps the matrices and queues a kernel, a block per core or per job. */
static int launch_group_jobs(void (*kernel)(group_gemm_args), int kind, group_gemm_args &g,
                             unsigned shared_bytes, cudaStream_t stream) {
    bool has_gate = g.a.groups.gate.data != NULL;
    unsigned rows = WARPS / (has_gate ? 2 : 1);
    unsigned n_cores;
    int code = map_matrices(kind, g.a, g.a.groups.weight, rows, &g.weight);
    if (code == 0 && has_gate)
        code = map_matrices(kind, g.a, g.a.groups.gate, rows, &g.gate);
    if (code == 0)
        code = ln_count_sms(&n_cores);
    if (code == 0)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)shared_bytes);
    if (code != 0)
        return code;
    size_t jobs = (size_t)ln_gemm_output_tiles(g.a.p, COLUMNS / (has_gate ? 2 : 1)) * g.a.n_slots;
    dim3 grid(jobs < n_cores ? (unsigned)jobs : n_cores);
    return ln_pdl_launch(kernel, grid, GEMM_THREADS, shared_bytes, stream, g);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

typedef struct group_job {
    ln_group_slot slot;
    unsigned panel, block;
} group_job;

/* Group after group, of each block after block of columns; neighbours have the same columns and
 * different rows, so that a group's matrix is read once. */
template <bool GATE>
static __device__ __forceinline__ bool find_group_job(const group_gemm_args &g, unsigned number,
                                                      group_job &out) {
    constexpr unsigned OWN = COLUMNS / (GATE ? 2 : 1);
    unsigned blocks = ((unsigned)g.a.p.parts[0].epilogue.n_out + OWN - 1) / OWN;
    unsigned any = number / blocks; /* a slot of the group */
    if (any >= g.a.n_slots || g.a.slots[any].slot.n == 0)
        return false;
    unsigned first = g.a.slots[any].first, count = g.a.slots[any].count,
             own = number - first * blocks;
    out.block = own / count;
    out.panel = first + own % count;
    out.slot = g.a.slots[out.panel].slot;
    return true;
}

/* The scales of the rows that a warp has the tiles of. */
template <int KIND, bool GATE>
static __device__ __forceinline__ const float *find_group_scales(const group_gemm_args &g,
                                                                 const group_job &job) {
    const ln_gemm_groups &groups = g.a.groups;
    const uint8_t *weight = ln_matrix_of_group(groups.weight, job.slot.group);
    const uint8_t *gate = GATE ? ln_matrix_of_group(groups.gate, job.slot.group) : NULL;
    return find_row_scales<KIND, GATE>(weight, gate, g.a.p.parts[0].epilogue.n_out, g.a.p.n_tiles,
                                       job.block);
}

/* Writes the results of job `number`, which is found again, and takes no registers before. */
template <int PANEL, bool GATE>
static __device__ __forceinline__ void finish_group(const group_gemm_args &g, unsigned &number,
                                                    const float (&total)[PANEL / 2], float *outs) {
    group_job job;
    asm volatile("" : "+r"(number));
    find_group_job<GATE>(g, number, job);
    const ln_gemm_groups &groups = g.a.groups;
    ln_epilogue e = g.a.p.parts[0].epilogue;
    e.bias = ln_bias_of_group(groups.weight, job.slot.group);
    e.gate_bias = GATE ? ln_bias_of_group(groups.gate, job.slot.group) : NULL;
    job_rows rows = {groups.order, job.slot.begin, 1, job.slot.n};
    if (groups.order == NULL) {
        rows.first = job.slot.group + job.slot.begin * groups.n_groups;
        rows.step = groups.n_groups;
    }
    finish_any<PANEL, GATE>(e, job.block, rows, total, outs);
}

#endif

#endif
