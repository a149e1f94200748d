#include "backend/cuda/runtime/stream_wait.h"

#include <cuda_runtime.h>

int ln_cuda_follow(ln_cuda_stream stream, ln_cuda_event event) {
    return cudaStreamWaitEvent(stream, event, 0);
}
