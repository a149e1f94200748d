/* What loading onto a GPU can reach: a file in the page cache, through two page-locked buffers.
 *
 *     nvcc -O3 -o load_limit load_limit.cu && ./load_limit FILE [THREADS [PASSES]]
 *
 * GB/s of the bus alone, and of threads that bring the file to a buffer by pread, from a fresh map,
 * and from a fresh map whose pages are asked for first; then of each with the bus, one buffer being
 * sent while the other is filled. The best of the passes. */
#include <cuda_runtime.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 64, BUFFER_BYTES = 16 << 20, PAGE = 4096 };
static const size_t most_bytes = (size_t)8 << 30; /* of the file */

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum way { PREAD, MAPPED, POPULATED, N_WAYS };
static const char *const names[] = {"pread", "map", "map, asked for first"};

static int file, n_threads;
static char *map, *buffers[2], *device;
static size_t bytes;
static enum way way;
static cudaStream_t stream;
static cudaEvent_t sent[2];
static pthread_barrier_t barrier;
static size_t begin_of; /* what is brought next: BUFFER_BYTES from there, to `to` */
static char *to;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void bring(int thread) {
    size_t share = BUFFER_BYTES / (size_t)n_threads / PAGE * PAGE, at = share * (size_t)thread;
    if (thread + 1 == n_threads)
        share = BUFFER_BYTES - at;
    if (way == PREAD) {
        if (pread(file, to + at, share, (off_t)(begin_of + at)) != (ssize_t)share)
            exit(1);
        return;
    }
    if (way == POPULATED)
        (void)madvise(map + begin_of + at, share, MADV_POPULATE_READ);
    memcpy(to + at, map + begin_of + at, share);
}

static void *help(void *thread) {
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (to == NULL)
            return NULL;
        bring((int)(intptr_t)thread);
        pthread_barrier_wait(&barrier);
    }
}

static double pass(bool brings, bool sends) {
    if (way != PREAD)
        map = (char *)mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    double start = now();
    for (size_t at = 0, i = 0; at < bytes; at += BUFFER_BYTES, i = 1 - i) {
        CHECK(cudaEventSynchronize(sent[i]));
        begin_of = at;
        to = buffers[i];
        if (brings) {
            pthread_barrier_wait(&barrier);
            bring(0);
            pthread_barrier_wait(&barrier);
        }
        if (sends)
            CHECK(
                cudaMemcpyAsync(device, buffers[i], BUFFER_BYTES, cudaMemcpyHostToDevice, stream));
        CHECK(cudaEventRecord(sent[i], stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    double seconds = now() - start;
    if (way != PREAD)
        munmap(map, bytes);
    return (double)bytes / seconds * 1e-9;
}

static void report(const char *what, bool brings, bool sends, int n_passes) {
    double best = 0;
    for (int i = 0; i < n_passes; i++) {
        double rate = pass(brings, sends);
        best = rate > best ? rate : best;
    }
    printf("%-24s %6.1f GB/s\n", what, best);
}

int main(int argc, char **argv) {
    struct stat status;
    char text[64];
    file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    n_threads = argc > 2 ? atoi(argv[2]) : 16;
    int n_passes = argc > 3 ? atoi(argv[3]) : 2;
    if (file < 0 || fstat(file, &status) != 0 || n_threads < 1 || n_threads > MAX_THREADS)
        return 1;
    bytes = (size_t)status.st_size < most_bytes ? (size_t)status.st_size : most_bytes;
    bytes = bytes / BUFFER_BYTES * BUFFER_BYTES;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc((void **)&device, BUFFER_BYTES));
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMallocHost((void **)&buffers[i], BUFFER_BYTES));
        CHECK(cudaEventCreate(&sent[i]));
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)n_threads);
    pthread_t threads[MAX_THREADS];
    for (int i = 1; i < n_threads; i++)
        pthread_create(&threads[i], NULL, help, (void *)(intptr_t)i);
    report("bus", false, true, n_passes);
    for (int i = 0; i < N_WAYS; i++) {
        way = (enum way)i;
        report(names[i], true, false, n_passes);
        snprintf(text, sizeof text, "%s, bus", names[i]);
        report(text, true, true, n_passes);
    }
    to = NULL;
    pthread_barrier_wait(&barrier);
    for (int i = 1; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
