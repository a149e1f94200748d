/* Loading a model's weights onto a GPU, with warm page cache.
 *
 *     cc -O2 -Iinclude bench/cuda/load.c build/liblinnet.a -o load_gpu -L/usr/local/cuda/lib64 \
 *         -lcudart_static -ldl -lrt $(pkg-config --libs jansson libpcre2-8 libutf8proc libxxhash) \
 *         -lm -pthread
 *     ./load_gpu MODEL [RUNS]
 *
 * Prints, for each run, the seconds of linnet_engine_create and those between its first and its
 * last word of weights that are ready, with GB/s of the weights. load_limit.cu measures what bounds
 * it. */
#include <linnet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct progress {
    double first_s, last_s;
    size_t bytes;
} progress;

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void note(void *user, size_t ready_bytes, size_t total_bytes) {
    progress *p = user;
    p->last_s = now_s();
    if (p->first_s == 0)
        p->first_s = p->last_s;
    p->bytes = ready_bytes;
    (void)total_bytes;
}

int main(int argc, char **argv) {
    int n_runs = argc > 2 ? atoi(argv[2]) : 3;
    linnet_error err = {0};
    linnet_model *model;
    if (argc < 2 || linnet_model_open(argv[1], &model, &err) != LINNET_OK) {
        fprintf(stderr, "load: %s\n", argc < 2 ? "which model?" : err.message);
        return 1;
    }
    for (int i = 0; i < n_runs; i++) {
        progress p = {0};
        linnet_engine_options options;
        linnet_engine *engine;
        linnet_engine_options_init(&options);
        options.backend = "cuda";
        options.ctx_tokens = 512;
        options.on_load = note;
        options.load_user = &p;
        double begin_s = now_s();
        if (linnet_engine_create(model, &options, &engine, &err) != LINNET_OK) {
            fprintf(stderr, "load: %s\n", err.message);
            return 1;
        }
        double all_s = now_s() - begin_s, weights_s = p.last_s - p.first_s;
        printf("engine %.3f s, weights %.3f s: %.1f GB/s\n", all_s, weights_s,
               (double)p.bytes / weights_s * 1e-9);
        linnet_engine_destroy(engine);
    }
    linnet_model_close(model);
    return 0;
}
