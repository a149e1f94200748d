#include "backend/cuda/runtime/peer.h"

#include <cuda_runtime.h>
#include <string.h>

static_assert(sizeof(cudaIpcMemHandle_t) == LN_CUDA_IPC_BYTES, "a handle is 64 bytes");

int ln_cuda_device_use(int index) {
    return cudaSetDevice(index);
}

int ln_cuda_device_bus(int index, char bus[LN_CUDA_BUS_BYTES]) {
    return cudaDeviceGetPCIBusId(bus, LN_CUDA_BUS_BYTES, index);
}

/* The next launch has nothing to do with a failure that was told. */
static int told(cudaError_t code) {
    if (code != cudaSuccess)
        (void)cudaGetLastError();
    return code;
}

int ln_cuda_ipc_export(void *memory, ln_cuda_ipc_handle *handle) {
    cudaIpcMemHandle_t own;
    cudaError_t code = cudaIpcGetMemHandle(&own, memory);
    if (code == cudaSuccess)
        memcpy(handle->bytes, &own, sizeof own);
    return told(code);
}

int ln_cuda_ipc_open(const ln_cuda_ipc_handle *handle, void **memory) {
    cudaIpcMemHandle_t theirs;
    *memory = NULL;
    memcpy(&theirs, handle->bytes, sizeof theirs);
    return told(cudaIpcOpenMemHandle(memory, theirs, cudaIpcMemLazyEnablePeerAccess));
}

void ln_cuda_ipc_close(void *memory) {
    (void)told(cudaIpcCloseMemHandle(memory));
}

int ln_cuda_event_query(ln_cuda_event event, bool *is_done) {
    cudaError_t code = cudaEventQuery(event);
    *is_done = code != cudaErrorNotReady;
    if (code != cudaErrorNotReady)
        return code;
    (void)cudaGetLastError();
    return 0;
}

int ln_cuda_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride,
                      size_t row_bytes, size_t n_rows, ln_cuda_stream stream) {
    return cudaMemcpy2DAsync(to, to_stride, from, from_stride, row_bytes, n_rows, cudaMemcpyDefault,
                             stream);
}
