#include "cli/bench/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- listening, on the engine's thread ------------------------------------------------------- */

/* "norm, linear x 3, qkv", or of many how many they are. */
static void list_ops(const ln_op *ops, size_t n_ops, char *text, size_t size) {
    enum { MOST_LISTED = 8 };
    size_t n = 0;
    if (n_ops > MOST_LISTED) {
        snprintf(text, size, "%s ... %s, %zu operations", ln_op_name(ops[0].kind),
                 ln_op_name(ops[n_ops - 1].kind), n_ops);
        return;
    }
    for (size_t i = 0, same; i < n_ops && n < size; i += same) {
        for (same = 1; i + same < n_ops && ops[i + same].kind == ops[i].kind;)
            same++;
        n += (size_t)snprintf(text + n, size - n, "%s%s", i > 0 ? ", " : "",
                              ln_op_name(ops[i].kind));
        if (same > 1 && n < size)
            n += (size_t)snprintf(text + n, size - n, " x %zu", same);
    }
}

static bool has_room(ln_explained_step *step) {
    if (step->n_launches < step->max_launches)
        return true;
    size_t n = 2 * step->max_launches + 64;
    ln_explained_launch *launches = realloc(step->launches, n * sizeof *launches);
    if (launches == NULL)
        return false;
    step->launches = launches;
    step->max_launches = n;
    return true;
}

static bool suits(const ln_explained_step *step, const ln_batch *batch) {
    return batch != NULL && batch->n_seqs == step->n_seqs &&
           (batch->n_tokens == batch->n_seqs) == step->decodes;
}

/* ln_explainer.tell; a step ends with its last part, each of which ends with its last operation. */
static void hear(void *context, const ln_op *ops, size_t n_ops, const ln_kernel_use *use) {
    ln_explained_step *step = context;
    const ln_batch *batch = ops[n_ops - 1].batch;
    bool begins = use->first == 0 && (step->n_ops == 0 || step->explainer.is_done);
    step->has_heard |= step->n_ops > 0 && begins;
    if (step->has_heard || step->has_no_memory || !suits(step, batch) ||
        (step->n_ops == 0 && !begins))
        return;
    step->has_no_memory = !has_room(step);
    if (step->has_no_memory)
        return;
    ln_explained_launch *launch = &step->launches[step->n_launches++];
    *launch = (ln_explained_launch){.layer = ops[use->first].layer,
                                    .last_layer = ops[use->first + use->n_ops - 1].layer,
                                    .n_ops = use->n_ops,
                                    .kernel = use->kernel,
                                    .apart = use->apart};
    list_ops(ops + use->first, use->n_ops, launch->ops, sizeof launch->ops);
    step->n_ops += use->n_ops;
    step->n_tokens = batch->n_tokens;
    step->explainer.is_done = use->first + use->n_ops == n_ops;
}

void ln_cli_explain_next(ln_explained_step *step, ln_backend *backend, size_t n_seqs,
                         bool decodes) {
    *step = (ln_explained_step){
        .explainer = {.tell = hear, .context = step}, .n_seqs = n_seqs, .decodes = decodes};
    backend->explainer = &step->explainer;
}

void ln_cli_explain_forget(ln_explained_step *step, ln_backend *backend) {
    backend->explainer = NULL;
    free(step->launches);
    *step = (ln_explained_step){0};
}

/* ---- printing -------------------------------------------------------------------------------- */

/* How many launches from `first` on begin in the same layer. */
static size_t count_block(const ln_explained_step *step, size_t first) {
    size_t n = 1;
    while (first + n < step->n_launches &&
           step->launches[first + n].layer == step->launches[first].layer)
        n++;
    return n;
}

static bool is_same_text(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Whether two layers run alike. */
static bool are_alike(const ln_explained_launch *a, const ln_explained_launch *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (a[i].last_layer - a[i].layer != b[i].last_layer - b[i].layer ||
            !is_same_text(a[i].kernel, b[i].kernel) || !is_same_text(a[i].apart, b[i].apart) ||
            strcmp(a[i].ops, b[i].ops) != 0)
            return false;
    return true;
}

/* *told: the reason that was printed last, which need not be said again. */
static void print_launches(const ln_explained_launch *launches, size_t n, const char **told) {
    for (size_t i = 0; i < n; i++) {
        const char *apart = launches[i].apart;
        printf("    %-44s %s\n", launches[i].ops, launches[i].kernel);
        if (apart != NULL && !is_same_text(apart, *told))
            printf("      %s: %s\n", launches[i].n_ops > 1 ? "ends there" : "not fused", apart);
        *told = apart != NULL ? apart : *told;
    }
}

bool ln_cli_explain_print(const ln_explained_step *step) {
    if (step->n_launches == 0 || step->has_no_memory)
        return false;
    printf("%s of %zu token%s, %zu sequence%s: %zu operations as %zu launches\n",
           step->decodes ? "decode" : "prefill", step->n_tokens, step->n_tokens > 1 ? "s" : "",
           step->n_seqs, step->n_seqs > 1 ? "s" : "", step->n_ops, step->n_launches);
    const char *told = NULL;
    for (size_t first = 0, n; first < step->n_launches;) {
        const ln_explained_launch *block = &step->launches[first];
        size_t end = first + (n = count_block(step, first));
        while (block->layer >= 0 && end < step->n_launches && step->launches[end].layer >= 0 &&
               count_block(step, end) == n && are_alike(block, &step->launches[end], n))
            end += n;
        int32_t last = step->launches[end - n].layer;
        if (block->layer < 0)
            printf("  outside the layers\n");
        else if (last > block->layer)
            printf("  layers %d to %d, from each\n", (int)block->layer, (int)last);
        else
            printf("  from layer %d\n", (int)block->layer);
        print_launches(block, n, &told);
        first = end;
    }
    return true;
}
