/* The CUDA runtime behind the functions of device.h. */
#include "backend/cuda/runtime/device.h"

#include <cuda_runtime.h>
#include <string.h>

const char *ln_cuda_error_text(int code) {
    return cudaGetErrorString((cudaError_t)code);
}

int ln_cuda_is_out_of_memory(int code) {
    return code == cudaErrorMemoryAllocation;
}

int ln_cuda_device_count(int *count) {
    *count = 0;
    cudaError_t code = cudaGetDeviceCount(count);
    (void)cudaGetLastError(); /* it has been told */
    return code;
}

int ln_cuda_device_open(int index, ln_cuda_device_info *info) {
    cudaDeviceProp prop;
    cudaError_t code = cudaSetDevice(index);
    if (code == cudaSuccess)
        code = cudaGetDeviceProperties(&prop, index);
    if (code != cudaSuccess)
        return code;
    strncpy(info->name, prop.name, sizeof info->name - 1);
    info->name[sizeof info->name - 1] = '\0';
    info->major = prop.major;
    info->minor = prop.minor;
    info->n_sms = (unsigned)prop.multiProcessorCount;
    info->total_bytes = prop.totalGlobalMem;
    return 0;
}

int ln_cuda_device_free_bytes(size_t *bytes) {
    size_t total;
    return cudaMemGetInfo(bytes, &total);
}

int ln_cuda_malloc(size_t bytes, void **memory) {
    *memory = NULL;
    cudaError_t code = cudaMalloc(memory, bytes);
    if (code == cudaSuccess)
        code = cudaMemset(*memory, 0, bytes);
    if (code == cudaSuccess) /* streams of our own do not wait for it */
        code = cudaStreamSynchronize(cudaStreamLegacy);
    if (code == cudaErrorMemoryAllocation)
        (void)cudaGetLastError(); /* the next launch has nothing to do with it */
    return code;
}

void ln_cuda_free(void *memory) {
    if (memory != NULL)
        (void)cudaFree(memory);
}

int ln_cuda_malloc_host(size_t bytes, void **memory) {
    *memory = NULL;
    cudaError_t code = cudaMallocHost(memory, bytes);
    if (code == cudaErrorMemoryAllocation)
        (void)cudaGetLastError();
    return code;
}

void ln_cuda_free_host(void *memory) {
    if (memory != NULL)
        (void)cudaFreeHost(memory);
}

int ln_cuda_device_check(void) {
    (void)cudaGetLastError(); /* it has been told */
    return cudaDeviceSynchronize();
}

int ln_cuda_stream_create(ln_cuda_stream *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
}

void ln_cuda_stream_destroy(ln_cuda_stream stream) {
    if (stream != NULL)
        (void)cudaStreamDestroy(stream);
}

int ln_cuda_stream_synchronize(ln_cuda_stream stream) {
    return cudaStreamSynchronize(stream);
}

int ln_cuda_copy_to_device(void *device, const void *host, size_t bytes, ln_cuda_stream stream) {
    return cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);
}

int ln_cuda_copy_to_host(void *host, const void *device, size_t bytes, ln_cuda_stream stream) {
    return cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream);
}

int ln_cuda_copy_any(void *to, const void *from, size_t bytes, ln_cuda_stream stream) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

int ln_cuda_event_create(ln_cuda_event *event) {
    return cudaEventCreate(event);
}

void ln_cuda_event_destroy(ln_cuda_event event) {
    if (event != NULL)
        (void)cudaEventDestroy(event);
}

int ln_cuda_event_record(ln_cuda_event event, ln_cuda_stream stream) {
    return cudaEventRecord(event, stream);
}

int ln_cuda_event_synchronize(ln_cuda_event event) {
    return cudaEventSynchronize(event);
}

int ln_cuda_stream_wait_event(ln_cuda_stream stream, ln_cuda_event event) {
    return cudaStreamWaitEvent(stream, event, 0);
}

int ln_cuda_event_elapsed_ns(ln_cuda_event begin, ln_cuda_event end, double *ns) {
    float ms = 0.0f;
    cudaError_t code = cudaEventElapsedTime(&ms, begin, end);
    *ns = (double)ms * 1e6;
    return code;
}

int ln_cuda_capture_begin(ln_cuda_stream stream) {
    return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

int ln_cuda_capture_end(ln_cuda_stream stream, ln_cuda_graph *graph) {
    cudaGraph_t captured = NULL;
    *graph = NULL;
    cudaError_t code = cudaStreamEndCapture(stream, &captured);
    if (code == cudaSuccess)
        code = cudaGraphInstantiate(graph, captured, 0);
    if (captured != NULL)
        (void)cudaGraphDestroy(captured);
    return code;
}

int ln_cuda_graph_launch(ln_cuda_graph graph, ln_cuda_stream stream) {
    return cudaGraphLaunch(graph, stream);
}

void ln_cuda_graph_destroy(ln_cuda_graph graph) {
    (void)cudaGraphExecDestroy(graph);
}
