/* Streams that wait for one another, and the host for none of them. */
#ifndef LN_BACKEND_CUDA_RUNTIME_STREAM_WAIT_H
#define LN_BACKEND_CUDA_RUNTIME_STREAM_WAIT_H

#include "backend/cuda/runtime/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is queued on the stream from now on begins once the event, as it was recorded last, is done;
 * at once where it never was. 0, or the runtime's error code. */
int ln_cuda_follow(ln_cuda_stream stream, ln_cuda_event event);

#ifdef __cplusplus
}
#endif

#endif
