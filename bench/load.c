/* Loading a model beside a plain copy of its file, both with warm page cache.
 *
 *     build/bench/bench_load MODEL.gguf [RUNS]
 *
 * The copy: two threads read halves of the file with pread into fresh memory that asks for huge
 * pages. The load: linnet_engine_create with two threads, a context of 512 tokens. They take turns;
 * the medians are compared. Resident memory is that of the process with one engine. */
#include <fcntl.h>
#include <linnet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { THREADS = 2, MAX_RUNS = 99, CHUNK = 8 << 20 };

/* Of all threads, in the system too. */
static double processor_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void fail(const char *what) {
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static size_t resident_bytes(const char *field) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtoull(line + strlen(field), NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

typedef struct part {
    int fd;
    char *memory;
    size_t begin, end;
} part;

static void *copy_part(void *argument) {
    part *p = argument;
    while (p->begin < p->end) {
        size_t n = p->end - p->begin < CHUNK ? p->end - p->begin : CHUNK;
        ssize_t got = pread(p->fd, p->memory + p->begin, n, (off_t)p->begin);
        if (got <= 0)
            fail("cannot read the file");
        p->begin += (size_t)got;
    }
    return NULL;
}

/* Seconds of a plain copy, and of processors. */
static double copy_file(const char *path, size_t bytes, double *busy_s) {
    int fd = open(path, O_RDONLY);
    double start = bench_seconds(CLOCK_MONOTONIC), before_s = processor_s();
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fd < 0 || memory == MAP_FAILED)
        fail("cannot open the file, or no memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    pthread_t threads[THREADS];
    part parts[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        parts[i] = (part){fd, memory, bytes * i / THREADS, bytes * (i + 1) / THREADS};
        pthread_create(&threads[i], NULL, copy_part, &parts[i]);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    double seconds = bench_seconds(CLOCK_MONOTONIC) - start;
    *busy_s = processor_s() - before_s;
    munmap(memory, bytes);
    close(fd);
    return seconds;
}

/* Seconds of opening the model and of creating its engine, and of processors for the latter. */
static void load(const char *path, double *open_s, double *create_s, double *busy_s,
                 size_t bytes[3]) {
    linnet_error err;
    linnet_model *model;
    linnet_engine *engine;
    linnet_engine_options options;
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_engine_options_init(&options);
    options.n_threads = THREADS;
    options.ctx_tokens = 512;
    double start = bench_seconds(CLOCK_MONOTONIC);
    if (linnet_model_open(path, &model, &err) != LINNET_OK)
        fail(err.message);
    double opened = bench_seconds(CLOCK_MONOTONIC), before_s = processor_s();
    if (linnet_engine_create(model, &options, &engine, &err) != LINNET_OK)
        fail(err.message);
    *open_s = opened - start;
    *create_s = bench_seconds(CLOCK_MONOTONIC) - opened;
    *busy_s = processor_s() - before_s;
    linnet_engine_get_memory(engine, &plan);
    bytes[0] = resident_bytes("VmRSS:");
    bytes[1] = plan.total_bytes;
    bytes[2] = plan.mapped_bytes;
    linnet_engine_destroy(engine);
    linnet_model_close(model);
}

int main(int argc, char **argv) {
    struct stat info;
    size_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 5, bytes[3];
    double copies[MAX_RUNS], opens[MAX_RUNS], creates[MAX_RUNS];
    double copies_busy[MAX_RUNS], creates_busy[MAX_RUNS];
    if (argc < 2 || stat(argv[1], &info) != 0 || runs == 0 || runs > MAX_RUNS)
        fail("usage: load MODEL.gguf [RUNS]");
    copy_file(argv[1], (size_t)info.st_size, &copies_busy[0]);
    for (size_t i = 0; i < runs; i++) {
        copies[i] = copy_file(argv[1], (size_t)info.st_size, &copies_busy[i]);
        load(argv[1], &opens[i], &creates[i], &creates_busy[i], bytes);
    }
    double size = (double)info.st_size, copy = bench_median(copies, runs);
    double create = bench_median(creates, runs);
    double copy_busy = bench_median(copies_busy, runs),
           create_busy = bench_median(creates_busy, runs);
    printf("file        %.1f MB\n", size / 1e6);
    printf("plain copy  %.3f s, %.2f GB/s\n", copy, size / copy / 1e9);
    printf("open        %.3f s\n", bench_median(opens, runs));
    printf("load        %.3f s, %.2f GB/s, %.2f of the copy\n", create, size / create / 1e9,
           copy / create);
    printf("processors  %.3f s of the copy, %.3f s of the load: %.2f\n", copy_busy, create_busy,
           copy_busy / create_busy);
    printf("resident    %.1f MB; planned %.1f MB, mapped %.1f MB\n", (double)bytes[0] / 1e6,
           (double)bytes[1] / 1e6, (double)bytes[2] / 1e6);
    return 0;
}
