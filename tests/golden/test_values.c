/* The values of the steps that every folder of golden/models records, prefill, decode, mixed, with
 * its last layers elsewhere, and of encoders: they have to be those that the operations' memory
 * tells. Nothing is computed. */
#include "reference.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "model/activations.h"
#include "test.h"
#include "value_oracle.h"

enum { N_REQUESTS = 3, N_TOKENS = 3, CTX = 160, MAX_SPIES = 2 };

/* A backend that looks at operations in place of running them. */
typedef struct spy {
    const ln_backend *backend;
    const ln_backend_vtable *real;
    ln_backend_vtable vtable;
    void *result;
} spy;

static spy spies[MAX_SPIES];
static size_t n_spies, n_steps, n_broken;

static spy *spy_of(const ln_backend *backend) {
    spy *self = spies;
    while (self->backend != backend)
        self++;
    return self;
}

/* Breaks some of the ids, one after another: each has to be found. */
static void break_ids(const ln_op *ops, size_t n_ops) {
    enum { EACH = 11 };
    char problem[128];
    ln_op *broken = malloc(n_ops * sizeof *broken);
    assert_non_null(broken);
    memcpy(broken, ops, n_ops * sizeof *broken);
    for (size_t i = n_broken % EACH; i < n_ops; i += EACH)
        for (size_t k = 0; k < LN_OP_MAX_IN + LN_OP_MAX_OUT; k++) {
            ln_value *id = k < LN_OP_MAX_IN ? &broken[i].in[k] : &broken[i].out[k - LN_OP_MAX_IN];
            if (*id == 0)
                continue;
            --*id;
            if (!oracle_finds_wrong(broken, n_ops, problem))
                fail_msg("operation %zu, place %zu: nobody sees that it is wrong", i, k);
            ++*id;
            n_broken++;
        }
    free(broken);
}

static ln_status look(ln_backend *backend, const ln_op *ops, size_t n_ops, ln_error *err) {
    (void)backend;
    (void)err;
    char problem[128];
    if (oracle_finds_wrong(ops, n_ops, problem))
        fail_msg("%s", problem);
    if (n_steps++ % 4 == 0)
        break_ids(ops, n_ops);
    return LINNET_OK;
}

static ln_status start(ln_backend *backend, const ln_op *ops, size_t n_ops, void *memory,
                       size_t bytes, ln_error *err) {
    spy *self = spy_of(backend);
    LN_TRY(look(backend, ops, n_ops, err));
    return self->real->read_back(backend, memory, bytes, &self->result, err);
}

static ln_status finish(ln_backend *backend, void **host, ln_error *err) {
    (void)err;
    *host = spy_of(backend)->result;
    return LINNET_OK;
}

static void watch(ln_backend *backend, bool starts) {
    spy *self = &spies[n_spies++];
    *self = (spy){.backend = backend, .real = backend->vtable, .vtable = *backend->vtable};
    self->vtable.run = look;
    self->vtable.start = starts ? start : NULL;
    self->vtable.finish = starts ? finish : NULL;
    backend->vtable = &self->vtable;
}

/* Some requests at once, of which the longer ones are read in chunks. */
static void submit_all(const reference *golden) {
    linnet_request *requests[N_REQUESTS];
    linnet_error err = {0};
    for (size_t i = 0; i < N_REQUESTS; i++) {
        linnet_request_options options;
        linnet_request_options_init(&options);
        size_t n_ids;
        int32_t *ids = reference_take_ids(golden, "prompts", i, &n_ids);
        if (golden->has_encoder)
            options.encoder_ids = ids, options.n_encoder_ids = n_ids;
        else
            options.prompt_ids = ids, options.n_prompt_ids = n_ids;
        options.max_tokens = N_TOKENS;
        options.ignore_eos = true;
        options.sampling.temperature = 0;
        reference_check(linnet_request_submit(golden->engine, &options, &requests[i], &err), &err);
        free(ids);
    }
    for (size_t i = 0; i < N_REQUESTS; i++) {
        linnet_event event = {0};
        while (event.finish == LINNET_FINISH_NONE)
            reference_check(linnet_request_next(requests[i], -1, &event, &err), &err);
        assert_int_equal(event.finish, LINNET_FINISH_LENGTH);
        linnet_request_close(requests[i]);
    }
}

/* Encoders, and layers that read what an indexer chose, need all layers on one backend. */
static bool can_split(const reference *golden) {
    const ln_spec *spec = &golden->model->spec;
    return spec->n_encoder_layers == 0 && spec->n_indexers == 0;
}

/* As few layers of the model as can run apart from the others. */
static int32_t last_layers(const reference *golden) {
    const ln_spec *spec = &golden->model->spec;
    size_t shared = ln_kv_first_shared(spec), n = spec->n_layers;
    return shared < n ? (int32_t)(n - shared) : 1;
}

static void test_model(void **state) {
    const char *name = *state;
    reference golden;
    reference_open(&golden, name);
    for (int32_t split = 0; split <= can_split(&golden); split++)
        for (size_t starts = 0; starts < 2; starts++) {
            linnet_engine_options options;
            linnet_engine_options_init(&options);
            options.precision = LINNET_PRECISION_EXACT;
            options.n_threads = 1;
            options.ctx_tokens = CTX;
            options.backend = "cpu";
            if (!golden.has_encoder)
                options.max_batch_tokens = 24;
            options.gpu_layers = split ? last_layers(&golden) : -1;
            reference_use(&golden, &options);
            n_spies = 0;
            watch(golden.engine->backend, starts);
            if (split)
                watch(golden.engine->cpu_layers.plan->backend, false);
            submit_all(&golden);
        }
    reference_close(&golden);
}

int main(void) {
    int failed = reference_run_all(test_model);
    assert_true(n_steps > 0 && n_broken > 0);
    printf("%zu steps, %zu ids broken and found\n", n_steps, n_broken);
    return failed;
}
