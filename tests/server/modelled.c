/* `linnet serve` over an engine whose steps are asked for: what depends on when a step comes is
 * tested without depending on time.
 *
 * usage: modelled_server MODEL MAX_SEQS MAX_WAITING HANG_MS DRAIN_MS HAS_GPU  (it prints its port)
 * Each byte of standard input is a command: s steps, f fails a step, l loses the GPU in a step, h
 * makes the engine one that cannot be destroyed.
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

static void *obey(void *argument) {
    linnet_engine *engine = argument;
    char command;
    while (read(STDIN_FILENO, &command, 1) == 1) {
        if (command == 'l')
            atomic_store(&engine->is_lost, true);
        if (command == 'h')
            atomic_store(&engine->is_stuck, true);
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

int main(int argc, char **argv) {
    linnet_error err = {0};
    linnet_model *model;
    static linnet_engine engine; /* its thread outlives this function */
    ln_server *server;
    ln_server_options options;
    pthread_t commands;
    if (argc != 7) {
        fprintf(stderr, "usage: %s MODEL MAX_SEQS MAX_WAITING HANG_MS DRAIN_MS HAS_GPU\n", argv[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    modelled_engine_init(&engine, strtoull(argv[2], NULL, 10));
    engine.has_gpu = atoi(argv[6]) > 0;
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
    linnet_status status = ln_server_run(server, model, &engine, &err);
    if (status != LINNET_OK)
        fprintf(stderr, "%s\n", err.message);
    ln_server_end(server, &engine, status != LINNET_OK);
    linnet_model_close(model);
    return status != LINNET_OK;
}
