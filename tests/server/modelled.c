/* `linnet serve` over an engine whose steps are asked for: what depends on when a step comes is
 * tested without depending on time.
 *
 * usage: modelled_server MODEL MAX_SEQS MAX_WAITING HANG_MS DRAIN_MS HAS_GPU N_MODELS
 * It prints its port. Several models are a, b and so on, whose engines step by themselves. Each
 * byte of standard input is a command: s steps, f fails a step, l loses the GPU in a step, h makes
 * the engine one that cannot be destroyed, p and q let one pass at the gates of several models.
 * When it is done, a line with the engine's counts is the answer: those of running, finished,
 * cancelled and failed requests. */
#include <linnet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/modelled_engine.h"
#include "server/server.h"

enum { STEP_NS = 1000000, MAX_MODELS = 4 };

static void *obey(void *argument) {
    linnet_engine *engine = argument;
    char command;
    while (read(STDIN_FILENO, &command, 1) == 1) {
        if (command == 'l')
            atomic_store(&engine->is_lost, true);
        if (command == 'h')
            atomic_store(&engine->is_stuck, true);
        else if (command == 'p')
            sem_post(&modelled_engine_kind.load_gate);
        else if (command == 'q')
            sem_post(&modelled_engine_kind.hang_gate);
        else if (command == 's')
            modelled_engine_step(engine);
        else
            modelled_engine_fail(engine);
        printf("%zu %zu %zu %zu\n", modelled_engine_count(engine), engine->n_finished,
               engine->n_cancelled, engine->n_failed);
        fflush(stdout);
    }
    return NULL;
}

static bool write_log(void *user, const char *line, size_t n_bytes) {
    (void)user;
    return fwrite(line, 1, n_bytes, stderr) == n_bytes;
}

/* ---- several models ---------------------------------------------------------------------- */

typedef struct offer {
    size_t n_models;
    const char *path;
    ln_model_spec specs[MAX_MODELS];
} offer;

static linnet_status open_model(void *user, linnet_model **model, linnet_error *err) {
    return linnet_model_open(((const offer *)user)->path, model, err);
}

static size_t look(void *user) {
    return ((const offer *)user)->n_models;
}

static const ln_model_spec *get(void *user, size_t i) {
    return &((const offer *)user)->specs[i];
}

static linnet_status run_models(ln_server *server, const char *path, size_t n_models,
                                size_t max_seqs, linnet_error *err) {
    static const char *const names[MAX_MODELS] = {"a", "b", "c", "d"};
    static const ln_memory_need any = {0};
    offer models = {.n_models = n_models < MAX_MODELS ? n_models : MAX_MODELS, .path = path};
    const ln_model_source source = {.user = &models, .look = look, .get = get};
    for (size_t i = 0; i < models.n_models; i++)
        models.specs[i] = (ln_model_spec){.name = names[i],
                                          .open = open_model,
                                          .user = &models,
                                          .options = {.max_seqs = max_seqs},
                                          .keep_ms = -1};
    return ln_server_run_models(server, &source, &any, err);
}

/* ---- all of it --------------------------------------------------------------------------- */

int main(int argc, char **argv) {
    linnet_error err = {0};
    linnet_model *model;
    static linnet_engine engine; /* its thread outlives this function */
    ln_server *server;
    ln_server_options options;
    pthread_t commands;
    if (argc != 8) {
        fprintf(stderr, "usage: %s MODEL MAX_SEQS MAX_WAITING HANG_MS DRAIN_MS HAS_GPU N_MODELS\n",
                argv[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    modelled_engine_init(&engine, strtoull(argv[2], NULL, 10));
    engine.has_gpu = atoi(argv[6]) > 0;
    size_t n_models = strtoull(argv[7], NULL, 10);
    modelled_engine_kind.step_ns = n_models > 1 ? STEP_NS : 0;
    modelled_engine_kind.has_gpu = engine.has_gpu;
    sem_init(&modelled_engine_kind.load_gate, 0, 0);
    sem_init(&modelled_engine_kind.hang_gate, 0, 0);
    ln_server_options_init(&options);
    options.address.port = 0;
    options.max_waiting = strtoull(argv[3], NULL, 10);
    options.hang_ms = (uint32_t)atoi(argv[4]);
    options.drain_ms = (uint32_t)atoi(argv[5]);
    options.log = write_log;
    if (linnet_model_open(argv[1], &model, &err) != LINNET_OK ||
        ln_server_open(&options, &server, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("listening at http://127.0.0.1:%u\n", ln_server_get_port(server));
    fflush(stdout);
    sigset_t all, before;
    sigfillset(&all); /* signals go to the server's thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&commands, NULL, obey, &engine) != 0)
        return 1;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    linnet_status status = n_models > 1
                               ? run_models(server, argv[1], n_models, engine.max_seqs, &err)
                               : ln_server_run(server, model, &engine, &err);
    if (status != LINNET_OK)
        fprintf(stderr, "%s\n", err.message);
    ln_server_end(server, n_models > 1 ? NULL : &engine, status != LINNET_OK);
    linnet_model_close(model);
    return status != LINNET_OK;
}
