/* Words by which blocks say that others find something of theirs in device memory. */
#ifndef LN_BACKEND_CUDA_PTX_FLAG_CUH
#define LN_BACKEND_CUDA_PTX_FLAG_CUH

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* What was written before the word was set is there once it is seen. */
static __device__ __forceinline__ unsigned look_at(const unsigned *word) {
    unsigned now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    return now;
}

static __device__ __forceinline__ void set_word(unsigned *word) {
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(word) : "memory");
}

#endif

#endif
