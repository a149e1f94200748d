#include "server/generation/generate.h"

#include <stdlib.h>

#include "server/generation/generation.h"

static bool fail_submit(ln_api_task *task, const linnet_error *err) {
    int status = err->status == LINNET_ERR_NOMEM ? 503 : 400;
    if (!ln_api_fail_grammar(&task->error, status, err->message, &task->request))
        ln_api_fail_with(&task->error, err,
                         task->work->kind == LN_API_CHAT ? "messages" : "prompt");
    return false;
}

/* One request of the engine for each prompt. */
static bool submit(ln_api_task *task) {
    ln_context *context = task->context;
    ln_generation_request *request = &task->request;
    linnet_error err = {0};
    task->runs = calloc(request->n_prompts, sizeof *task->runs);
    if (task->runs == NULL)
        return ln_api_fail(&task->error, 503, NULL, "out of memory");
    for (size_t i = 0; i < request->n_prompts; i++) {
        linnet_request_options options = request->options;
        const ln_prompt *prompt = &request->prompts[i];
        if (context->served.info.has_encoder) {
            options.encoder_ids = prompt->ids;
            options.n_encoder_ids = prompt->n_ids;
        } else {
            options.prompt_ids = prompt->ids;
            options.n_prompt_ids = prompt->n_ids;
        }
        options.mailbox = context->generations->mailbox;
        options.user = &task->runs[i];
        if (linnet_request_submit(context->served.engine, &options, &task->runs[i].request, &err) !=
            LINNET_OK)
            return fail_submit(task, &err);
        task->n_runs++;
    }
    return true;
}

bool ln_generate(ln_api_task *task, const ln_fields *fields, ln_generation_reader *read) {
    ln_context *context = task->context;
    if (!ln_api_task_check_model(task, fields) ||
        !read(fields, context->served.model, context->served.ctx_tokens, &task->request))
        return false;
    /* one sequence was reserved before the body was read */
    size_t n_each =
        task->request.options.best_of > 0 ? task->request.options.best_of : task->request.n;
    size_t n_more = task->request.n_prompts * n_each - task->n_reserved;
    const char *culprit = task->request.n_prompts > 1                       ? "prompt"
                          : task->request.options.best_of > task->request.n ? "best_of"
                                                                            : "n";
    if (n_more > 0 &&
        !ln_admission_take(&context->admission, task->n_reserved, n_more, culprit, &task->error))
        return false;
    task->n_reserved += n_more;
    return submit(task);
}
