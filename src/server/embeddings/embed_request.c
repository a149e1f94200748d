#include "server/embeddings/embed_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/value.h"
#include "server/generation/token_ids.h"

/* What readers of texts share. */
typedef struct text_reader {
    const linnet_model *model;
    linnet_model_info info;
    const char *prompt;         /* in front of texts; NULL: none */
    size_t max_tokens;          /* texts are cut to; 0: they are not */
    size_t max_document_tokens; /* and documents before that; 0: they are not */
    size_t ctx_tokens;
    ln_generation_request *request;
    ln_api_error *error;
} text_reader;

static void free_answer(void *extra) {
    ln_embed_answer *answer = extra;
    json_decref(answer->documents);
    free(answer);
}

/* The request as all of these make it. */
static bool begin(text_reader *r, const ln_fields *fields, const linnet_model *model,
                  size_t ctx_tokens, ln_generation_request *request) {
    *r = (text_reader){.model = model,
                       .info = {.struct_bytes = sizeof r->info},
                       .ctx_tokens = ctx_tokens,
                       .request = request,
                       .error = fields->error};
    linnet_model_get_info(model, &r->info);
    ln_embed_answer *answer = calloc(1, sizeof *answer);
    if (answer == NULL)
        return ln_api_fail_memory(fields->error);
    answer->model = model;
    answer->n_labels = (size_t)r->info.n_labels;
    request->extra = answer;
    request->free_extra = free_answer;
    request->kind = LN_API_COMPLETION;
    request->n = 1;
    request->n_prompt_top = -1;
    linnet_request_options_init(&request->options);
    request->options.kind = LINNET_REQUEST_EMBED;
    return true;
}

/* The limit that texts are cut to. */
static size_t usual_limit(const text_reader *r) {
    size_t most = r->ctx_tokens;
    if (r->info.embed_tokens > 0 && (size_t)r->info.embed_tokens < most)
        most = (size_t)r->info.embed_tokens;
    return most;
}

/* truncate_prompt_tokens: so many tokens, or -1: as many as there may be. */
static bool read_truncation(text_reader *r, const ln_fields *fields) {
    int64_t tokens = 0;
    if (!ln_fields_integer(fields, "truncate_prompt_tokens", -1, INT32_MAX, &tokens))
        return false;
    if (tokens == 0 && ln_fields_get(fields, "truncate_prompt_tokens") != NULL)
        return ln_api_fail(r->error, 400, "truncate_prompt_tokens",
                           "truncate_prompt_tokens is 0, which leaves no tokens");
    r->max_tokens = tokens < 0 ? usual_limit(r) : (size_t)tokens;
    return true;
}

static bool new_prompts(text_reader *r, size_t n, const char *param) {
    if (n == 0 || n > LN_EMBED_MAX_TEXTS)
        return ln_api_fail(r->error, 400, param, "%s must have from 1 to %d items", param,
                           LN_EMBED_MAX_TEXTS);
    r->request->prompts = calloc(n, sizeof *r->request->prompts);
    if (r->request->prompts == NULL)
        return ln_api_fail_memory(r->error);
    return true;
}

/* prompt_name: what the checkpoint has in front of such texts; without one its usual prompt. */
static bool read_prompt(text_reader *r, const ln_fields *fields) {
    const char *name = NULL;
    linnet_error err = {0};
    if (!ln_fields_text(fields, "prompt_name", &name))
        return false;
    return linnet_model_get_prompt(r->model, name, &r->prompt, &err) == LINNET_OK ||
           ln_api_fail_with(r->error, &err, "prompt_name");
}

/* Encodes one text, or a pair, as the next prompt. */
static bool add_text(text_reader *r, const json_t *text, const json_t *second, const char *param) {
    ln_prompt *prompt = &r->request->prompts[r->request->n_prompts];
    linnet_error err = {0};
    prompt->param = param;
    if (!json_is_string(text) || (second != NULL && !json_is_string(second)))
        return ln_api_fail(r->error, 400, param, "%s is not a string", param);
    if (linnet_model_encode_pair(r->model, json_string_value(text), json_string_length(text),
                                 second != NULL ? json_string_value(second) : NULL,
                                 second != NULL ? json_string_length(second) : 0, r->max_tokens,
                                 &prompt->ids, &prompt->n_ids, &prompt->n_first, &err) != LINNET_OK)
        return ln_api_fail_with(r->error, &err, param);
    r->request->n_prompts++;
    if (prompt->n_ids == 0)
        return ln_api_fail(r->error, 400, param, "%s has no tokens", param);
    return true;
}

/* One text behind the prompt that was asked for. */
static bool add_prompted(text_reader *r, const json_t *text, const char *param) {
    if (!json_is_string(text))
        return ln_api_fail(r->error, 400, param, "%s is not a string", param);
    size_t n_prompt = strlen(r->prompt), n = json_string_length(text);
    char *whole = malloc(n_prompt + n + 1);
    if (whole != NULL) {
        memcpy(whole, r->prompt, n_prompt);
        memcpy(whole + n_prompt, json_string_value(text), n);
    }
    json_t *value = whole != NULL ? json_stringn_nocheck(whole, n_prompt + n) : NULL;
    free(whole);
    if (value == NULL)
        return ln_api_fail_memory(r->error);
    bool ok = add_text(r, value, NULL, param);
    json_decref(value);
    return ok;
}

static bool add_input(text_reader *r, const json_t *value, const char *param) {
    ln_prompt *prompt = &r->request->prompts[r->request->n_prompts];
    if (!json_is_array(value))
        return r->prompt != NULL && *r->prompt != '\0' ? add_prompted(r, value, param)
                                                       : add_text(r, value, NULL, param);
    prompt->param = param;
    r->request->n_prompts++; /* it owns the ids even if some are wrong */
    if (!ln_api_read_ids(value, &r->info, param, &prompt->ids, &prompt->n_ids, r->error))
        return false;
    if (r->max_tokens > 0 && prompt->n_ids > r->max_tokens)
        prompt->n_ids = r->max_tokens;
    if (prompt->n_ids == 0)
        return ln_api_fail(r->error, 400, param, "%s has no tokens", param);
    return true;
}

/* A string, ids, or a list of either. */
static bool read_inputs(text_reader *r, const ln_fields *fields, const char *name) {
    const json_t *value = ln_fields_get(fields, name);
    if (value == NULL)
        return ln_api_fail(r->error, 400, name, "%s is missing", name);
    bool is_list = json_is_array(value) && !json_is_number(json_array_get(value, 0));
    size_t n = is_list ? json_array_size(value) : 1;
    if (!ln_api_check_mixed(value, name, r->error) || !new_prompts(r, n, name))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!add_input(r, is_list ? json_array_get(value, i) : value, name))
            return false;
    return true;
}

static bool read_dimensions(const text_reader *r, const ln_fields *fields) {
    int64_t dimensions = 0;
    if (!ln_fields_integer(fields, "dimensions", 1, r->info.n_embedding, &dimensions))
        return false;
    r->request->options.dimensions = (size_t)dimensions;
    return true;
}

bool ln_embed_read(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                   ln_generation_request *request) {
    static const char *const known[] = {"model",      "input",       "encoding_format",
                                        "dimensions", "user",        "truncate_prompt_tokens",
                                        "normalize",  "prompt_name", NULL};
    text_reader r;
    const char *format = NULL;
    bool normalizes = true;
    if (!begin(&r, fields, model, ctx_tokens, request) || !ln_fields_only(fields, known) ||
        !ln_fields_text(fields, "encoding_format", &format) || !read_truncation(&r, fields) ||
        !ln_fields_bool(fields, "normalize", &normalizes) || !read_dimensions(&r, fields) ||
        !read_prompt(&r, fields))
        return false;
    ln_embed_answer *answer = request->extra;
    answer->is_base64 = format != NULL && strcmp(format, "base64") == 0;
    if (format != NULL && !answer->is_base64 && strcmp(format, "float") != 0)
        return ln_api_fail(fields->error, 400, "encoding_format",
                           "encoding_format is not float or base64");
    if (ln_fields_get(fields, "normalize") != NULL)
        request->options.normalization =
            normalizes ? LINNET_NORMALIZATION_ON : LINNET_NORMALIZATION_OFF;
    return read_inputs(&r, fields, "input");
}

static bool need_labels(const text_reader *r) {
    return r->info.n_labels > 0 ||
           ln_api_fail(r->error, 400, "model", "the model has no head that classifies");
}

bool ln_embed_read_classes(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                           ln_generation_request *request) {
    static const char *const known[] = {"model", "input", "user", "truncate_prompt_tokens", NULL};
    text_reader r;
    if (!begin(&r, fields, model, ctx_tokens, request) || !ln_fields_only(fields, known) ||
        !read_truncation(&r, fields) || !need_labels(&r))
        return false;
    request->options.head = LINNET_HEAD_CLASSES;
    return read_inputs(&r, fields, "input");
}

/* ---- pairs ------------------------------------------------------------------------------- */

/* A text or a list of texts, each a string or an object with `text`. */
typedef struct text_list {
    const json_t *value;
    const char *param; /* the field that it is */
} text_list;

static size_t count_texts(const text_list *list) {
    return json_is_array(list->value) ? json_array_size(list->value) : 1;
}

/* A text of the list; NULL with the error set. */
static const json_t *get_text(const text_reader *r, const text_list *list, size_t i) {
    bool is_list = json_is_array(list->value);
    const json_t *item = is_list ? json_array_get(list->value, i) : list->value;
    const json_t *text = json_is_object(item) ? json_object_get(item, "text") : item;
    if (json_is_string(text))
        return text;
    if (is_list)
        ln_api_fail(r->error, 400, list->param,
                    "%s: item %zu is not a string or an object with text", list->param, i);
    else
        ln_api_fail(r->error, 400, list->param, "%s is not a string or an object with text",
                    list->param);
    return NULL;
}

/* A document, with as many tokens as it may have; NULL with the error set. Owned. */
static json_t *cut_document(const text_reader *r, const json_t *text, const char *param) {
    linnet_error err = {0};
    int32_t *ids = NULL;
    char *kept = NULL;
    size_t n_ids = 0, n_bytes = 0;
    if (r->max_document_tokens == 0)
        return ln_json_share(text);
    bool done = linnet_model_encode(r->model, json_string_value(text), json_string_length(text),
                                    false, false, &ids, &n_ids, &err) == LINNET_OK;
    bool is_long = n_ids > r->max_document_tokens;
    if (done && is_long)
        done = linnet_model_decode(r->model, ids, r->max_document_tokens, true, &kept, &n_bytes,
                                   &err) == LINNET_OK;
    json_t *cut = !done ? NULL : is_long ? json_stringn(kept, n_bytes) : ln_json_share(text);
    if (!done)
        ln_api_fail_with(r->error, &err, param);
    else if (cut == NULL)
        ln_api_fail_memory(r->error);
    linnet_free(ids);
    linnet_free(kept);
    return cut;
}

static bool can_score(text_reader *r) {
    ln_embed_answer *answer = r->request->extra;
    answer->is_scored = r->info.n_labels > 0;
    if (answer->is_scored)
        r->request->options.head = LINNET_HEAD_CLASSES;
    if (answer->is_scored && r->info.n_labels > 1)
        return ln_api_fail(r->error, 400, "model", "the model has %d labels, not one score",
                           (int)r->info.n_labels);
    if (!answer->is_scored) /* the cosine of two vectors */
        r->request->options.normalization = LINNET_NORMALIZATION_ON;
    return true;
}

static bool check_counts(const text_reader *r, const text_list *queries,
                         const text_list *documents) {
    enum { MAX_PAIRS = LN_EMBED_MAX_TEXTS / 2 };
    size_t n_queries = count_texts(queries), n_documents = count_texts(documents);
    const char *param = n_documents == 0 || n_documents > MAX_PAIRS ? documents->param
                        : n_queries == 0                            ? queries->param
                                                                    : NULL;
    if (param != NULL)
        return ln_api_fail(r->error, 400, param, "%s must have from 1 to %d items", param,
                           MAX_PAIRS);
    return n_queries == 1 || n_queries == n_documents ||
           ln_api_fail(r->error, 400, documents->param, "%s: %zu texts cannot be paired with %zu",
                       documents->param, n_queries, n_documents);
}

/* A document, with its query where a head scores pairs. */
static bool add_document(text_reader *r, const text_list *queries, const text_list *documents,
                         size_t i) {
    const ln_embed_answer *answer = r->request->extra;
    const json_t *query = NULL, *text;
    if (answer->is_scored && (query = get_text(r, queries, answer->n_queries > 1 ? i : 0)) == NULL)
        return false;
    if ((text = get_text(r, documents, i)) == NULL)
        return false;
    json_t *document = cut_document(r, text, documents->param);
    bool done = document != NULL && add_text(r, answer->is_scored ? query : document,
                                             answer->is_scored ? document : NULL, documents->param);
    json_decref(document);
    return done;
}

/* Queries and documents, or a list of one for the other: pairs where a head scores them, else all
 * of them as texts, the queries first. */
static bool add_pairs(text_reader *r, const text_list *queries, const text_list *documents) {
    ln_embed_answer *answer = r->request->extra;
    size_t n_queries = count_texts(queries), n_documents = count_texts(documents);
    if (!check_counts(r, queries, documents) ||
        !new_prompts(r, answer->is_scored ? n_documents : n_queries + n_documents,
                     documents->param))
        return false;
    answer->n_queries = n_queries;
    for (size_t i = 0; i < n_queries && !answer->is_scored; i++) {
        const json_t *query = get_text(r, queries, i);
        if (query == NULL || !add_text(r, query, NULL, queries->param))
            return false;
    }
    for (size_t i = 0; i < n_documents; i++)
        if (!add_document(r, queries, documents, i))
            return false;
    answer->top_n = n_documents;
    return true;
}

bool ln_embed_read_rerank(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                          ln_generation_request *request) {
    static const char *const known[] = {"model",
                                        "query",
                                        "documents",
                                        "top_n",
                                        "return_documents",
                                        "user",
                                        "truncate_prompt_tokens",
                                        "max_tokens_per_doc",
                                        NULL};
    text_reader r;
    bool shows = true;
    int64_t top_n = 0, n_document = 0;
    if (!begin(&r, fields, model, ctx_tokens, request) || !ln_fields_only(fields, known) ||
        !ln_fields_bool(fields, "return_documents", &shows) ||
        !ln_fields_integer(fields, "top_n", 0, INT32_MAX, &top_n) ||
        !ln_fields_integer(fields, "max_tokens_per_doc", 1, INT32_MAX, &n_document) ||
        !read_truncation(&r, fields) || !can_score(&r))
        return false;
    r.max_document_tokens = (size_t)n_document;
    const json_t *query = ln_fields_get(fields, "query");
    json_t *documents = ln_fields_get(fields, "documents");
    if (!json_is_string(query))
        return ln_api_fail(fields->error, 400, "query", "query is missing or not a string");
    if (!json_is_array(documents))
        return ln_api_fail(fields->error, 400, "documents", "documents is missing or not a list");
    if (!add_pairs(&r, &(text_list){query, "query"}, &(text_list){documents, "documents"}))
        return false;
    ln_embed_answer *answer = request->extra;
    if (top_n > 0 && (size_t)top_n < answer->top_n)
        answer->top_n = (size_t)top_n;
    answer->documents = shows ? json_incref(documents) : NULL;
    return true;
}

/* The field of either name, or a missing one of the first. */
static text_list find_texts(const ln_fields *fields, const char *name, const char *other) {
    const char *found =
        ln_fields_get(fields, name) == NULL && ln_fields_get(fields, other) != NULL ? other : name;
    return (text_list){ln_fields_get(fields, found), found};
}

bool ln_embed_read_score(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                         ln_generation_request *request) {
    static const char *const known[] = {
        "model", "text_1", "text_2", "queries", "documents", "user", "truncate_prompt_tokens",
        NULL};
    text_reader r;
    if (!begin(&r, fields, model, ctx_tokens, request) || !ln_fields_only(fields, known) ||
        !read_truncation(&r, fields) || !can_score(&r))
        return false;
    text_list first = find_texts(fields, "text_1", "queries");
    text_list second = find_texts(fields, "text_2", "documents");
    const text_list *missing = first.value == NULL ? &first : second.value == NULL ? &second : NULL;
    if (missing != NULL)
        return ln_api_fail(fields->error, 400, missing->param, "%s is missing", missing->param);
    return add_pairs(&r, &first, &second);
}

/* ---- other APIs -------------------------------------------------------------------------- */

/* The model's name may have a tag behind it there. */
static bool read_ollama(const ln_fields *fields, const char *input, const linnet_model *model,
                        size_t ctx_tokens, ln_generation_request *request) {
    static const char *const known[] = {"model",      "input",      "prompt",  "truncate",
                                        "keep_alive", "dimensions", "options", NULL};
    text_reader r;
    bool truncates = true;
    if (!begin(&r, fields, model, ctx_tokens, request) || !ln_fields_only(fields, known) ||
        !ln_fields_bool(fields, "truncate", &truncates) || !read_dimensions(&r, fields))
        return false;
    r.max_tokens = truncates ? usual_limit(&r) : 0;
    const json_t *options = ln_fields_get(fields, "options");
    if (options != NULL && !json_is_object(options))
        return ln_api_fail(fields->error, 400, "options", "options is not an object");
    linnet_model_get_prompt(model, NULL, &r.prompt, NULL);
    return read_inputs(&r, fields, input);
}

bool ln_embed_read_ollama(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                          ln_generation_request *request) {
    return read_ollama(fields, "input", model, ctx_tokens, request) &&
           (request->options.normalization = LINNET_NORMALIZATION_ON);
}

bool ln_embed_read_ollama_old(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                              ln_generation_request *request) {
    return read_ollama(fields, "prompt", model, ctx_tokens, request);
}

bool ln_embed_read_native(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                          ln_generation_request *request) {
    static const char *const known[] = {"content", "input", "embd_normalize", NULL};
    text_reader r;
    int64_t norm = 2;
    if (!begin(&r, fields, model, ctx_tokens, request) || !ln_fields_only(fields, known) ||
        !ln_fields_integer(fields, "embd_normalize", -1, 2, &norm))
        return false;
    if (norm == 0 || norm == 1)
        return ln_api_fail(fields->error, 400, "embd_normalize",
                           "embd_normalize is not -1 (none) or 2 (a length of one)");
    request->options.normalization = norm < 0 ? LINNET_NORMALIZATION_OFF : LINNET_NORMALIZATION_ON;
    linnet_model_get_prompt(model, NULL, &r.prompt, NULL);
    return read_inputs(&r, fields, ln_fields_get(fields, "content") != NULL ? "content" : "input");
}
