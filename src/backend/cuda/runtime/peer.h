/* What ranks use of the CUDA runtime besides device.h: memory of other processes, and which device
 * a thread works with. Functions that return an int give 0, else the runtime's error code. */
#ifndef LN_BACKEND_CUDA_RUNTIME_PEER_H
#define LN_BACKEND_CUDA_RUNTIME_PEER_H

#include "backend/cuda/runtime/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LN_CUDA_BUS_BYTES = 16, LN_CUDA_IPC_BYTES = 64 };

/* Names a whole allocation of ln_cuda_malloc for other processes of the host. */
typedef struct ln_cuda_ipc_handle {
    unsigned char bytes[LN_CUDA_IPC_BYTES];
} ln_cuda_ipc_handle;

/* Makes device `index` the one that this thread works with; cheap when it is already. */
int ln_cuda_device_use(int index);
/* Where a device is plugged in, as text: no two of a host are alike. */
int ln_cuda_device_bus(int index, char bus[LN_CUDA_BUS_BYTES]);

int ln_cuda_ipc_export(void *memory, ln_cuda_ipc_handle *handle);
/* Maps another process's memory; the devices must reach each other. */
int ln_cuda_ipc_open(const ln_cuda_ipc_handle *handle, void **memory);
void ln_cuda_ipc_close(void *memory);

/* Whether the event's last record is done; an error is one of what was queued before it. */
int ln_cuda_event_query(ln_cuda_event event, bool *is_done);
/* Queues the copy of n_rows rows of so many bytes, which lie at these distances. */
int ln_cuda_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride,
                      size_t row_bytes, size_t n_rows, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
