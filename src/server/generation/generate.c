#include "server/generation/generate.h"

#include <stdlib.h>

#include "server/generation/generation.h"

static bool fail_submit(ln_api_task *task, const ln_prompt *prompt, const linnet_error *err) {
    int status = err->status == LINNET_ERR_NOMEM ? 503 : 400;
    if (!ln_api_fail_grammar(&task->error, status, err->message, &task->request))
        ln_api_fail_with(&task->error, err,
                         prompt->param != NULL             ? prompt->param
                         : task->work->kind == LN_API_CHAT ? "messages"
                                                           : "prompt");
    return false;
}

/* Submits a run. */
static bool submit_run(ln_api_task *task, ln_prompt_run *run) {
    ln_context *context = task->context;
    const ln_prompt *prompt = &task->request.prompts[run->prompt];
    linnet_request_options options = task->request.options;
    linnet_error err = {0};
    if (task->served->info.has_encoder) {
        options.encoder_ids = prompt->ids;
        options.n_encoder_ids = prompt->n_ids;
    } else {
        options.prompt_ids = prompt->ids;
        options.n_prompt_ids = prompt->n_ids;
    }
    options.n_first_ids = prompt->n_first;
    options.n = (uint32_t)run->n;
    options.first_output = (uint32_t)run->first;
    options.completion_queue = context->generations->completion_queue;
    options.adapter = task->request.adapter[0] != '\0' ? task->request.adapter : NULL;
    options.user = run;
    if (linnet_request_submit(task->served->engine, &options, &run->request, &err) != LINNET_OK)
        return fail_submit(task, prompt, &err);
    task->n_runs++;
    return true;
}

/* One request of the engine for each prompt, or several where a step does not hold all of its
 * outputs: those wait for one another. The best of some must be in one. */
static bool submit(ln_api_task *task) {
    const ln_generation_request *request = &task->request;
    if (task->served->engine == NULL)
        return ln_api_fail(&task->error, 503, "model", "the model is not loaded");
    size_t n_most = task->served->max_seqs;
    if (request->options.best_of > 0 || n_most == 0 || request->n < n_most)
        n_most = request->n;
    size_t n_each = (request->n + n_most - 1) / n_most;
    task->runs = calloc(request->n_prompts * n_each, sizeof *task->runs);
    if (task->runs == NULL)
        return ln_api_fail_memory(&task->error);
    for (size_t i = 0; i < request->n_prompts * n_each; i++) {
        ln_prompt_run *run = &task->runs[i];
        run->prompt = i / n_each;
        run->first = i % n_each * n_most;
        run->n = request->n - run->first < n_most ? request->n - run->first : n_most;
        if (!submit_run(task, run))
            return false;
    }
    return true;
}

bool ln_generate(ln_api_task *task, const ln_fields *fields, ln_generation_reader *read) {
    if (!ln_api_task_check_model(task, fields) ||
        !read(fields, task->served->model, task->served->ctx_tokens, &task->request))
        return false;
    /* one sequence was reserved before the body was read */
    size_t n_each =
        task->request.options.best_of > 0 ? task->request.options.best_of : task->request.n;
    size_t n_more = task->request.n_prompts * n_each - task->n_reserved;
    if (task->request.options.kind == LINNET_REQUEST_EMBED)
        n_more = 0; /* texts are little work, and a body holds many */
    const char *culprit = task->request.n_prompts > 1                       ? "prompt"
                          : task->request.options.best_of > task->request.n ? "best_of"
                                                                            : "n";
    if (n_more > 0 &&
        !ln_admission_take(task->admission, task->n_reserved, n_more, culprit, &task->error))
        return false;
    task->n_reserved += n_more;
    return submit(task);
}
