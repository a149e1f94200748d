/* What the host side uses of the CUDA runtime, in C and without its headers. Functions that return
 * an int give 0 for success, else the runtime's error code. */
#ifndef LN_BACKEND_CUDA_RUNTIME_DEVICE_H
#define LN_BACKEND_CUDA_RUNTIME_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *ln_cuda_stream;   /* cudaStream_t */
typedef struct CUevent_st *ln_cuda_event;     /* cudaEvent_t */
typedef struct CUgraphExec_st *ln_cuda_graph; /* cudaGraphExec_t */

typedef struct ln_cuda_device_info {
    char name[256];
    int major, minor; /* compute capability */
    unsigned n_sms;
    size_t total_bytes;
} ln_cuda_device_info;

const char *ln_cuda_error_text(int code);
/* Whether the code means that memory ran out. */
int ln_cuda_is_out_of_memory(int code);

/* Devices that this process sees (CUDA_VISIBLE_DEVICES chooses among them). */
int ln_cuda_device_count(int *count);
/* Makes device `index` the one that this thread works with, and describes it. */
int ln_cuda_device_open(int index, ln_cuda_device_info *info);
int ln_cuda_device_free_bytes(size_t *bytes);
/* Whether it runs what was compiled for Hopper alone. */
bool ln_cuda_has_sm90a_code(void);

/* Zeroed device memory, and page-locked host memory. Of NULL nothing is freed; nor are streams and
 * events destroyed. */
int ln_cuda_malloc(size_t bytes, void **memory);
void ln_cuda_free(void *memory);
int ln_cuda_malloc_host(size_t bytes, void **memory);
void ln_cuda_free_host(void *memory);

/* After an error: 0 when the device can be used on, else the error that stays. */
int ln_cuda_device_check(void);

int ln_cuda_stream_create(ln_cuda_stream *stream);
void ln_cuda_stream_destroy(ln_cuda_stream stream);
/* Waits on the host for all that was queued; an error is one of any of it. */
int ln_cuda_stream_synchronize(ln_cuda_stream stream);

/* Queue a copy; the host side must be page-locked, and stay as it is until the copy is done. */
int ln_cuda_copy_to_device(void *device, const void *host, size_t bytes, ln_cuda_stream stream);
int ln_cuda_copy_to_host(void *host, const void *device, size_t bytes, ln_cuda_stream stream);

/* Queues a copy between any two places; memory of the host need not be page-locked. */
int ln_cuda_copy_any(void *to, const void *from, size_t bytes, ln_cuda_stream stream);

int ln_cuda_event_create(ln_cuda_event *event);
void ln_cuda_event_destroy(ln_cuda_event event);
int ln_cuda_event_record(ln_cuda_event event, ln_cuda_stream stream);
int ln_cuda_event_synchronize(ln_cuda_event event);
/* What is queued on the stream from now on waits for the last record of the event, if there was
 * one; the host does not wait. */
int ln_cuda_stream_wait_event(ln_cuda_stream stream, ln_cuda_event event);
/* Nanoseconds from one recorded event to another, both done. */
int ln_cuda_event_elapsed_ns(ln_cuda_event begin, ln_cuda_event end, double *ns);

/* What is queued on the stream from begin to end is not run but becomes a graph, which launch
 * queues as a whole. After an error *graph is NULL. */
int ln_cuda_capture_begin(ln_cuda_stream stream);
int ln_cuda_capture_end(ln_cuda_stream stream, ln_cuda_graph *graph);
int ln_cuda_graph_launch(ln_cuda_graph graph, ln_cuda_stream stream);
void ln_cuda_graph_destroy(ln_cuda_graph graph);

#ifdef __cplusplus
}
#endif

#endif
