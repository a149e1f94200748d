/* Writes when each kernel and copy on a GPU began and ended, of any program that is run with it, as
 * CSV: begin and end in ns, blocks of a kernel or bytes of a copy, name. Kernels of CUDA graphs are
 * told apart. bench/cuda/trace.py adds them up.
 *
 *     gcc -O2 -shared -fPIC -I/usr/local/cuda/include bench/cuda/trace.c -o trace.so -lcupti
 *     TRACE_OUT=trace.csv CUDA_INJECTION64_PATH=./trace.so linnet bench ... */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 8 << 20, BUFFER_ALIGNMENT = 8 };

static FILE *out;

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *max_records) {
    *buffer = aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *size = *buffer != NULL ? BUFFER_BYTES : 0;
    *max_records = 0;
}

static void print_row(uint64_t begin, uint64_t end, uint64_t size, const char *name) {
    fprintf(out, "%llu,%llu,%llu,%s\n", (unsigned long long)begin, (unsigned long long)end,
            (unsigned long long)size, name);
}

static void print_record(const CUpti_Activity *record) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel9 *k = (const void *)record;
        print_row(k->start, k->end, (uint64_t)k->gridX * (uint64_t)k->gridY * (uint64_t)k->gridZ,
                  k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy5 *copy = (const void *)record;
        print_row(copy->start, copy->end, copy->bytes, "copy");
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t n_valid) {
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)size;
    while (cuptiActivityGetNextRecord(buffer, n_valid, &record) == CUPTI_SUCCESS)
        print_record(record);
    free(buffer);
}

static void finish(void) {
    cuptiActivityFlushAll(1);
    fclose(out);
}

/* The driver calls it before anything else. */
int InitializeInjection(void) {
    const char *path = getenv("TRACE_OUT");
    out = fopen(path != NULL ? path : "trace.csv", "w");
    if (out == NULL || cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
        return 0;
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    return atexit(finish) == 0;
}
