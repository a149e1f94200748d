/* `linnet serve` over an engine that only keeps time: every step takes the same while and gives
 * each request a token, whose text is the time of the step in nanoseconds (CLOCK_MONOTONIC). What
 * a client on the same machine sees later than that is what serving costs.
 *
 * usage: bench_serve_modelled MODEL PORT STEP_US MAX_SEQS     (the model is for its tokenizer) */
#include <linnet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/modelled_engine.h"
#include "server/server.h"

int main(int argc, char **argv) {
    linnet_error err = {0};
    linnet_model *model;
    linnet_engine engine;
    ln_server *server;
    ln_server_options options;
    if (argc != 5) {
        fprintf(stderr, "usage: %s MODEL PORT STEP_US MAX_SEQS\n", argv[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    modelled_engine_init(&engine, strtoull(argv[4], NULL, 10));
    ln_server_options_init(&options);
    options.address.port = (uint16_t)atoi(argv[2]);
    options.served_name = "modelled";
    if (linnet_model_open(argv[1], &model, &err) != LINNET_OK ||
        ln_server_open(&options, &server, &err) != LINNET_OK ||
        modelled_engine_start(&engine, strtoull(argv[3], NULL, 10) * 1000) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    linnet_status status = ln_server_run(server, model, &engine, &err);
    ln_server_close(server);
    modelled_engine_stop(&engine);
    printf("%llu steps, %llu of them over a step late\n", (unsigned long long)engine.n_steps,
           (unsigned long long)engine.n_late);
    linnet_model_close(model);
    return status != LINNET_OK;
}
