/* Do mma.sync (m16n8k16) and WGMMA (m64n8k16) give equal bits for an equal order over K?
 *
 *     nvcc -O3 -gencode=arch=compute_90a,code=sm_90a -o mma_bits mma_bits.cu && ./mma_bits
 *
 * W [64][K] and X [8][K] in bf16; y = W X^T summed in float32, 16 columns after 16 columns in one
 * accumulator. Prints how many of the 512 sums differ, over data of several spreads. */
#include <cuda_bf16.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLS = 8 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

__device__ static uint32_t pair_at(const __nv_bfloat16 *x, int row, int k, int K) {
    return *(const uint32_t *)(x + (size_t)row * K + k);
}

/* Four warps, 16 rows each. */
__global__ void by_mma(const __nv_bfloat16 *w, const __nv_bfloat16 *x, int K, float *y) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4 * 2;
    int row = warp * 16 + group;
    float d[4] = {0, 0, 0, 0};
    for (int k = 0; k < K; k += 16) {
        uint32_t a0 = pair_at(w, row, k + pair, K), a1 = pair_at(w, row + 8, k + pair, K);
        uint32_t a2 = pair_at(w, row, k + 8 + pair, K), a3 = pair_at(w, row + 8, k + 8 + pair, K);
        uint32_t b0 = pair_at(x, group, k + pair, K), b1 = pair_at(x, group, k + 8 + pair, K);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    y[row * COLS + pair] = d[0];
    y[row * COLS + pair + 1] = d[1];
    y[(row + 8) * COLS + pair] = d[2];
    y[(row + 8) * COLS + pair + 1] = d[3];
}

/* One warpgroup; A from registers, B [8][16] from shared memory without swizzle: cores of 8 x 8. */
__global__ void by_wgmma(const __nv_bfloat16 *w, const __nv_bfloat16 *x, int K, float *y) {
    __shared__ __align__(128) __nv_bfloat16 b[2][8][8]; /* [k / 8][n][k % 8] */
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4 * 2;
    int row = warp * 16 + group;
    float d[4] = {0, 0, 0, 0};
    uint64_t address = (uint64_t)__cvta_generic_to_shared(b);
    /* start address / 16, leading offset 128 bytes, stride offset 256 bytes, no swizzle */
    uint64_t descriptor =
        (address >> 4 & 0x3fff) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
    for (int k = 0; k < K; k += 16) {
        __syncthreads();
        b[threadIdx.x / 64][threadIdx.x % 64 / 8][threadIdx.x % 8] =
            x[(size_t)(threadIdx.x % 64 / 8) * K + k + threadIdx.x / 64 * 8 + threadIdx.x % 8];
        asm volatile("fence.proxy.async.shared::cta;");
        __syncthreads();
        uint32_t a0 = pair_at(w, row, k + pair, K), a1 = pair_at(w, row + 8, k + pair, K);
        uint32_t a2 = pair_at(w, row, k + 8 + pair, K), a3 = pair_at(w, row + 8, k + 8 + pair, K);
        asm volatile("wgmma.fence.sync.aligned;");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, %8, 1, 1, 1, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(descriptor));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    }
    y[row * COLS + pair] = d[0];
    y[row * COLS + pair + 1] = d[1];
    y[(row + 8) * COLS + pair] = d[2];
    y[(row + 8) * COLS + pair + 1] = d[3];
}

/* About normal, times 2^-spread .. 2^spread. */
static void fill(__nv_bfloat16 *x, size_t n, int spread) {
    for (size_t i = 0; i < n; i++) {
        double u = 0;
        for (int j = 0; j < 12; j++)
            u += drand48();
        int shift = spread > 0 ? (int)(drand48() * (2 * spread + 1)) - spread : 0;
        x[i] = __float2bfloat16((float)ldexp(u - 6, shift));
    }
}

int main(void) {
    enum { K = 4096 };
    __nv_bfloat16 *w, *x;
    float *y[2];
    CHECK(cudaMallocManaged((void **)&w, sizeof *w * ROWS * K));
    CHECK(cudaMallocManaged((void **)&x, sizeof *x * COLS * K));
    for (int i = 0; i < 2; i++)
        CHECK(cudaMallocManaged((void **)&y[i], sizeof(float) * ROWS * COLS));
    for (int spread = 0; spread <= 8; spread += 2) {
        fill(w, (size_t)ROWS * K, spread);
        fill(x, (size_t)COLS * K, spread);
        by_mma<<<1, 128>>>(w, x, K, y[0]);
        CHECK(cudaGetLastError());
        by_wgmma<<<1, 128>>>(w, x, K, y[1]);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        int differ = 0;
        double square = 0, sum = 0;
        for (int row = 0; row < ROWS; row++)
            for (int col = 0; col < COLS; col++) {
                double exact = 0;
                for (int k = 0; k < K; k++)
                    exact +=
                        (double)__bfloat162float(w[row * K + k]) * __bfloat162float(x[col * K + k]);
                int i = row * COLS + col;
                differ += y[0][i] != y[1][i];
                square += (y[0][i] - exact) * (y[0][i] - exact);
                sum += exact * exact;
            }
        printf("spread 2^%d: %d of %d sums differ (mma.sync against float64: %.2e)\n", spread,
               differ, ROWS * COLS, sqrt(square / sum));
    }
    return 0;
}
