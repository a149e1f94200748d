/* What workers do with a body: read it, encode prompts, submit; or turn text into ids and back. */
#include <stdlib.h>
#include <string.h>

#include "server/json_out.h"
#include "server/state.h"

static bool check_model(const ln_fields *fields, const ln_server *server) {
    const char *name = NULL;
    if (!ln_fields_text(fields, "model", &name))
        return false;
    if (name == NULL || strcmp(name, server->name) == 0)
        return true;
    ln_api_fail(fields->error, 404, "model", "there is no model '%.128s'; this server has '%.128s'",
                name, server->name);
    fields->error->code = "model_not_found";
    return false;
}

/* ---- generation ------------------------------------------------------------------------- */

static bool fail_submit(ln_job *job, const linnet_error *err) {
    int status = err->status == LINNET_ERR_NOMEM ? 503 : 400;
    if (!ln_api_fail_grammar(&job->error, status, err->message, &job->request))
        ln_api_fail_with(&job->error, err, job->kind == LN_API_CHAT ? "messages" : "prompt");
    return false;
}

/* One request of the engine for each prompt. */
static bool submit(ln_job *job) {
    ln_server *server = job->server;
    ln_api_request *request = &job->request;
    linnet_error err = {0};
    job->sources = calloc(request->n_prompts, sizeof *job->sources);
    if (job->sources == NULL)
        return ln_api_fail(&job->error, 503, NULL, "out of memory");
    for (size_t i = 0; i < request->n_prompts; i++) {
        linnet_request_options options = request->options;
        const ln_prompt *prompt = &request->prompts[i];
        if (server->info.has_encoder) {
            options.encoder_ids = prompt->ids;
            options.n_encoder_ids = prompt->n_ids;
        } else {
            options.prompt_ids = prompt->ids;
            options.n_prompt_ids = prompt->n_ids;
        }
        options.mailbox = server->mailbox;
        options.user = &job->sources[i];
        if (linnet_request_submit(server->engine, &options, &job->sources[i].request, &err) !=
            LINNET_OK)
            return fail_submit(job, &err);
        job->n_sources++;
    }
    return true;
}

static bool read_generation(ln_job *job, const ln_fields *fields) {
    ln_server *server = job->server;
    bool (*read)(const ln_fields *, const linnet_model *, size_t, ln_api_request *) =
        job->kind == LN_API_CHAT ? ln_api_read_chat : ln_api_read_completion;
    if (!check_model(fields, server) ||
        !read(fields, server->model, server->ctx_tokens, &job->request))
        return false;
    /* one sequence was reserved before the body was read */
    size_t n_each =
        job->request.options.best_of > 0 ? job->request.options.best_of : job->request.n;
    size_t n_more = job->request.n_prompts * n_each - job->n_reserved;
    const char *culprit = job->request.n_prompts > 1                      ? "prompt"
                          : job->request.options.best_of > job->request.n ? "best_of"
                                                                          : "n";
    if (n_more > 0 && !ln_server_reserve(server, job->n_reserved, n_more, culprit, &job->error))
        return false;
    job->n_reserved += n_more;
    return submit(job);
}

void ln_work_generate(ln_job *job) {
    json_t *root = ln_fields_parse(job->body.data, job->body.len, &job->error);
    const ln_fields fields = {root, "", &job->error};
    if (root != NULL)
        read_generation(job, &fields);
    json_decref(root);
    /* submit copied what pointed into the body */
    job->request.options.n_stop = 0;
    ln_strbuf_free(&job->body);
}

/* ---- text and ids ----------------------------------------------------------------------- */

/* Ids, which are not negative, with commas between them: millions, at times. */
static void put_ids(ln_strbuf *out, const int32_t *ids, size_t n_ids) {
    char text[16];
    for (size_t i = 0; i < n_ids; i++) {
        char *begin = text + sizeof text;
        uint32_t rest = (uint32_t)ids[i];
        do
            *--begin = (char)('0' + rest % 10);
        while ((rest /= 10) > 0);
        if (i > 0)
            *--begin = ',';
        ln_strbuf_append(out, begin, (size_t)(text + sizeof text - begin));
    }
}

static bool tokenize(ln_job *job, const ln_fields *fields) {
    static const char *const known[] = {"model",         "prompt", "content", "add_special_tokens",
                                        "parse_special", NULL};
    bool adds_special = true, parses_special = true;
    const char *name = ln_fields_get(fields, "content") != NULL ? "content" : "prompt";
    const json_t *text = ln_fields_get(fields, name);
    if (!ln_fields_only(fields, known) || !check_model(fields, job->server) ||
        !ln_fields_bool(fields, "add_special_tokens", &adds_special) ||
        !ln_fields_bool(fields, "parse_special", &parses_special))
        return false;
    if (*name == 'c' && ln_fields_get(fields, "prompt") != NULL)
        return ln_api_fail(&job->error, 400, name, "content and prompt exclude each other");
    if (!json_is_string(text))
        return ln_api_fail(&job->error, 400, name, "%s is missing or not a string", name);
    int32_t *ids;
    size_t n_ids;
    linnet_error err = {0};
    if (linnet_model_encode(job->server->model, json_string_value(text), json_string_length(text),
                            adds_special, parses_special, &ids, &n_ids, &err) != LINNET_OK)
        return ln_api_fail_with(&job->error, &err, "prompt");
    ln_strbuf_printf(&job->reply, "{\"count\":%zu,\"max_model_len\":%zu,\"tokens\":[", n_ids,
                     job->server->ctx_tokens);
    put_ids(&job->reply, ids, n_ids);
    ln_strbuf_puts(&job->reply, "]}");
    linnet_free(ids);
    return true;
}

static bool detokenize(ln_job *job, const ln_fields *fields) {
    static const char *const known[] = {"model", "tokens", "skip_special_tokens", NULL};
    bool skips_special = false;
    const json_t *tokens = ln_fields_get(fields, "tokens");
    if (!ln_fields_only(fields, known) || !check_model(fields, job->server) ||
        !ln_fields_bool(fields, "skip_special_tokens", &skips_special))
        return false;
    if (!json_is_array(tokens))
        return ln_api_fail(&job->error, 400, "tokens", "tokens is missing or not a list of ids");
    int32_t *ids = NULL;
    size_t n_ids, n_bytes;
    char *text = NULL;
    linnet_error err = {0};
    bool done = ln_api_read_ids(tokens, &job->server->info, "tokens", &ids, &n_ids, &job->error);
    if (done && linnet_model_decode(job->server->model, ids, n_ids, !skips_special, &text, &n_bytes,
                                    &err) != LINNET_OK)
        done = ln_api_fail_with(&job->error, &err, "tokens");
    if (done) {
        ln_strbuf_puts(&job->reply, "{\"prompt\":");
        ln_json_put_string(&job->reply, text, n_bytes);
        ln_strbuf_putc(&job->reply, '}');
    }
    free(ids);
    linnet_free(text);
    return done;
}

static void work_on_text(ln_job *job, bool (*read)(ln_job *, const ln_fields *)) {
    json_t *root = ln_fields_parse(job->body.data, job->body.len, &job->error);
    const ln_fields fields = {root, "", &job->error};
    if (root != NULL && read(job, &fields) && job->reply.failed)
        ln_api_fail(&job->error, 503, NULL, "out of memory");
    json_decref(root);
}

void ln_work_tokenize(ln_job *job) {
    work_on_text(job, tokenize);
}

void ln_work_detokenize(ln_job *job) {
    work_on_text(job, detokenize);
}
