/* Host side of the GEMMs: a launcher for each family of kernels. */
#ifndef LN_BACKEND_CUDA_GEMM_SELECT_CUH
#define LN_BACKEND_CUDA_GEMM_SELECT_CUH

#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/launch.h"

/* mma.sync, all layouts but F8_ROW, activations row after row. */
int ln_gemm_mma_small_m(int layout, const ln_gemm_args &args, cudaStream_t stream);
/* Hopper, M up to 64, activations in one tile: any layout but F8_ROW; what is dequantised to
 * f16. */
int ln_gemm_sm90_small_m(int layout, const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_small_m_f16(int layout, const ln_gemm_args &args, cudaStream_t stream);
/* Hopper, F8_ROW, M up to 8. */
int ln_gemm_sm90_small_m_fp8(const ln_gemm_args &args, cudaStream_t stream);
/* Hopper, larger M, activations in tiles: any layout; BF16; what is dequantised to f16; F8_ROW;
 * INT8 and INT4; INT8_ROW. */
int ln_gemm_sm90(int layout, const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_bf16(const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_f16(int layout, const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_fp8(const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_int(int layout, const ln_gemm_args &args, cudaStream_t stream);
int ln_gemm_sm90_int8_row(const ln_gemm_args &args, cudaStream_t stream);
/* Runs a planned GEMM whose linears have adapters. */
int ln_cuda_gemm_with_lora(const ln_cuda_launch *launch, const ln_op *ops,
                           const ln_gemm_adapters &adapters, ln_cuda_stream stream);
/* Hopper, grouped, activations in tiles by slot: all layouts but INT8_ROW and F8_ROW. */
int ln_gemm_sm90_grouped(int layout, const ln_grouped_args &args, cudaStream_t stream);

#endif
