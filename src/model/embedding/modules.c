/* The files of sentence-transformers beside config.json: modules.json lists what comes behind the
 * model, each with a folder and a config.json of its own. */
#include <stdlib.h>
#include <string.h>

#include "format/json.h"
#include "format/quants.h"
#include "format/safetensors.h"
#include "model/embedding/embedding.h"

enum { LARGEST_JSON = 1 << 20, MAX_MODULES = 16, MAX_PROMPTS = 256 };

typedef struct modules_reader {
    const char *folder;
    const ln_spec *spec;
    ln_arena *arena;
    ln_embedding *embedding;
    size_t width; /* of the vector so far */
    bool is_pooled;
    bool skips_prompts; /* pooling leaves their tokens out */
    ln_error *err;
} modules_reader;

/* The parsed file folder/part/name; *root stays NULL where there is none. Arrays are wrapped: they
 * become the member "list". */
static ln_status read_json(const modules_reader *r, const char *part, const char *name,
                           json_t **root) {
    static const char before[] = "{\"list\":";
    ln_strbuf text;
    *root = NULL;
    char *folder = ln_path_join(r->folder, part);
    char *path = folder != NULL ? ln_path_join(folder, name) : NULL;
    free(folder);
    if (path == NULL)
        return ln_fail(r->err, LINNET_ERR_NOMEM, "out of memory reading %s", r->folder);
    if (!ln_file_exists(path)) {
        free(path);
        return LINNET_OK;
    }
    ln_strbuf_init(&text);
    bool is_list = strcmp(name, "modules.json") == 0;
    ln_status status = LINNET_OK;
    if (is_list && !ln_strbuf_append(&text, before, sizeof before - 1))
        status = ln_fail(r->err, LINNET_ERR_NOMEM, "out of memory reading %s", path);
    if (status == LINNET_OK)
        status = ln_file_read(path, LARGEST_JSON, &text, r->err);
    if (status == LINNET_OK && is_list && !ln_strbuf_append(&text, "}", 1))
        status = ln_fail(r->err, LINNET_ERR_NOMEM, "out of memory reading %s", path);
    if (status == LINNET_OK) {
        status = ln_json_parse(text.data, text.len, root, NULL, r->err);
        if (status != LINNET_OK)
            status = ln_error_prefix(r->err, status, path);
    }
    ln_strbuf_free(&text);
    free(path);
    return status;
}

static ln_status unsupported(const modules_reader *r, const char *part, const char *what) {
    return ln_fail(r->err, LINNET_ERR_UNSUPPORTED, "%s: %.64s: %.64s is not supported", r->folder,
                   part, what);
}

/* Which pooling a module asks for: by a word, or by the one flag that is set. */
static ln_status pooling(modules_reader *r, const char *part, const json_t *config) {
    static const struct {
        const char *flag, *word;
        linnet_pooling pooling;
    } known[] = {
        {"pooling_mode_cls_token", "cls", LINNET_POOLING_CLS},
        {"pooling_mode_mean_tokens", "mean", LINNET_POOLING_MEAN},
        {"pooling_mode_lasttoken", "lasttoken", LINNET_POOLING_LAST},
        {"pooling_mode_max_tokens", "max", LINNET_POOLING_DEFAULT},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", LINNET_POOLING_DEFAULT},
        {"pooling_mode_weightedmean_tokens", "weightedmean", LINNET_POOLING_DEFAULT}};
    const char *word = json_string_value(json_object_get(config, "pooling_mode"));
    const json_t *with_prompt = json_object_get(config, "include_prompt");
    size_t n_found = 0;
    if (r->is_pooled || r->embedding->dense.n > 0)
        return unsupported(r, part, "pooling behind another layer");
    r->is_pooled = true;
    r->skips_prompts = json_is_false(with_prompt);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (word != NULL ? strcmp(word, known[i].word) != 0
                         : !json_is_true(json_object_get(config, known[i].flag)))
            continue;
        if (known[i].pooling == LINNET_POOLING_DEFAULT)
            return unsupported(r, part, known[i].flag);
        r->embedding->dense.pooling = known[i].pooling;
        n_found++;
    }
    return n_found == 1 ? LINNET_OK : unsupported(r, part, "this pooling");
}

/* One of the tensors from `first` to `end`, which are of one file. */
static const ln_tensor *find_tensor(const ln_tensor_list *list, size_t first, size_t end,
                                    const char *name) {
    for (size_t i = first; i < end; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

/* A vector or matrix of a dense layer. */
static bool has_shape(const ln_tensor *tensor, size_t n_out, size_t n_in) {
    return tensor->n_dims == (n_in > 0 ? 2 : 1) && tensor->dims[0] == n_out &&
           (n_in == 0 || tensor->dims[1] == n_in) && ln_dtype_block_elems(tensor->dtype) == 1 &&
           ln_can_dequantize(tensor->dtype);
}

static bool find_activation(const char *name, ln_head_activation *activation) {
    static const struct {
        const char *ending;
        ln_head_activation activation;
    } known[] = {{"Identity", LN_HEAD_IDENTITY},
                 {"Tanh", LN_HEAD_TANH},
                 {"GELU", LN_HEAD_GELU},
                 {"ReLU", LN_HEAD_RELU},
                 {"SiLU", LN_HEAD_SILU}};
    const char *dot = name != NULL ? strrchr(name, '.') : NULL;
    for (size_t i = 0; dot != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(dot + 1, known[i].ending) == 0) {
            *activation = known[i].activation;
            return true;
        }
    return name == NULL;
}

/* Maps folder/part/model.safetensors; its tensors go to the end of the list. */
static ln_status map_weights(modules_reader *r, const char *part) {
    ln_embedding *e = r->embedding;
    char *folder = ln_path_join(r->folder, part);
    char *path = folder != NULL ? ln_path_join(folder, "model.safetensors") : NULL;
    free(folder);
    if (path == NULL)
        return ln_fail(r->err, LINNET_ERR_NOMEM, "out of memory reading %s", r->folder);
    ln_status status = ln_file_map_open(&e->maps[e->n_maps], path, r->err);
    if (status == LINNET_OK) {
        const ln_file_map *map = &e->maps[e->n_maps++];
        status = ln_safetensors_parse(map->data, map->bytes, 0, r->arena, &e->tensors, r->err);
        if (status != LINNET_OK)
            status = ln_error_prefix(r->err, status, path);
    }
    free(path);
    return status;
}

/* A dense layer that reads and writes another than the vector of a text. */
static ln_status check_wiring(const modules_reader *r, const char *part, const json_t *config) {
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = json_string_value(json_object_get(config, keys[i]));
        if (value != NULL && strcmp(value, "sentence_embedding") != 0)
            return unsupported(r, part, keys[i]);
    }
    return json_is_true(json_object_get(config, "use_residual"))
               ? unsupported(r, part, "use_residual")
               : LINNET_OK;
}

/* A dense layer; pointers into the list of tensors are made when all have been read. */
static ln_status dense(modules_reader *r, const char *part, const json_t *config,
                       size_t first[LN_MAX_STAGES]) {
    ln_head_stages *head = &r->embedding->dense;
    const char *name = json_string_value(json_object_get(config, "activation_function"));
    if (head->n == LN_MAX_STAGES)
        return unsupported(r, part, "one more dense layer");
    ln_head_stage *stage = &head->stages[head->n];
    *stage = (ln_head_stage){.n_in = r->width};
    if (!find_activation(name, &stage->activation))
        return unsupported(r, part, name);
    LN_TRY(check_wiring(r, part, config));
    json_int_t n_out = json_integer_value(json_object_get(config, "out_features"));
    json_int_t n_in = json_integer_value(json_object_get(config, "in_features"));
    if (n_out <= 0 || n_out > LN_MAX_DIM || n_in != (json_int_t)r->width)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %.64s: a dense layer from %lld to %lld",
                       r->folder, part, (long long)n_in, (long long)n_out);
    stage->n_out = r->width = (size_t)n_out;
    first[head->n++] = r->embedding->tensors.count;
    return map_weights(r, part);
}

static ln_status bind_dense(modules_reader *r, const size_t first[LN_MAX_STAGES]) {
    ln_head_stages *head = &r->embedding->dense;
    const ln_tensor_list *list = &r->embedding->tensors;
    for (size_t i = 0; i < head->n; i++) {
        ln_head_stage *stage = &head->stages[i];
        size_t end = i + 1 < head->n ? first[i + 1] : list->count;
        stage->weight = find_tensor(list, first[i], end, "linear.weight");
        stage->bias = find_tensor(list, first[i], end, "linear.bias");
        if (stage->weight == NULL || !has_shape(stage->weight, stage->n_out, stage->n_in) ||
            (stage->bias != NULL && !has_shape(stage->bias, stage->n_out, 0)))
            return ln_fail(r->err, LINNET_ERR_FORMAT,
                           "%s: the dense layer %zu has no linear.weight of %zu by %zu", r->folder,
                           i, stage->n_out, stage->n_in);
    }
    return LINNET_OK;
}

/* Tokens whose logits score a pair. */
static ln_status logit_score(modules_reader *r, const char *part, const json_t *config) {
    ln_embedding *e = r->embedding;
    const json_t *yes = json_object_get(config, "true_token_id");
    const json_t *no = json_object_get(config, "false_token_id");
    bool has_no = no != NULL && !json_is_null(no);
    if (!json_is_integer(yes) || (has_no && !json_is_integer(no)))
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %.64s: true_token_id or false_token_id",
                       r->folder, part);
    e->asks = true;
    e->answers[0] = json_integer_value(yes);
    e->answers[1] = has_no ? json_integer_value(no) : -1;
    return LINNET_OK;
}

/* One module of the list, by the last word of its type. */
static ln_status module(modules_reader *r, const json_t *item, size_t first[LN_MAX_STAGES]) {
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *part = json_string_value(json_object_get(item, "path"));
    const char *dot = type != NULL ? strrchr(type, '.') : NULL;
    if (dot == NULL || part == NULL || part[0] == '/' || strstr(part, "..") != NULL)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: modules.json has no type and path",
                       r->folder);
    const char *kind = dot + 1;
    if (strcmp(kind, "Transformer") == 0)
        return part[0] == '\0' ? LINNET_OK : unsupported(r, part, "a model in a folder of its own");
    if (strcmp(kind, "Normalize") == 0) {
        r->embedding->normalizes = true;
        return LINNET_OK;
    }
    bool is_score = strcmp(kind, "LogitScore") == 0;
    bool is_known = is_score || strcmp(kind, "Pooling") == 0 || strcmp(kind, "Dense") == 0;
    if (!is_known || r->embedding->normalizes) /* nothing comes behind that */
        return unsupported(r, part, kind);
    json_t *config;
    LN_TRY(read_json(r, part, "config.json", &config));
    if (config == NULL)
        return ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %.64s has no config.json", r->folder, part);
    ln_status status = is_score                       ? logit_score(r, part, config)
                       : strcmp(kind, "Pooling") == 0 ? pooling(r, part, config)
                                                      : dense(r, part, config, first);
    json_decref(config);
    return status;
}

/* The length that texts are cut to. Lower case is what the tokenizer says it is. */
static ln_status read_length(modules_reader *r) {
    static const char file[] = "sentence_bert_config.json", lower[] = "do_lower_case";
    json_t *config, *tokenizer;
    LN_TRY(read_json(r, "", "tokenizer_config.json", &tokenizer));
    bool is_lower = json_is_true(json_object_get(tokenizer, lower));
    json_decref(tokenizer);
    LN_TRY(read_json(r, "", file, &config));
    if (json_is_true(json_object_get(config, lower)) && !is_lower) {
        json_decref(config);
        return unsupported(r, file, lower);
    }
    json_int_t n = json_integer_value(json_object_get(config, "max_seq_length"));
    if (n > 0 && n < INT32_MAX)
        r->embedding->max_tokens = (size_t)n;
    json_decref(config);
    return LINNET_OK;
}

/* The prompt of texts for which nobody names one. */
static ln_status find_default_prompt(modules_reader *r, const char *file, const json_t *name) {
    ln_embedding *e = r->embedding;
    if (name == NULL || json_is_null(name))
        return LINNET_OK;
    for (size_t i = 0; json_is_string(name) && i < e->n_prompts; i++)
        if (strcmp(e->prompts[i].name, json_string_value(name)) == 0)
            e->default_prompt = e->prompts[i].text;
    return e->default_prompt != NULL
               ? LINNET_OK
               : ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %s: there is no prompt \"%.64s\"",
                         r->folder, file, json_is_string(name) ? json_string_value(name) : "");
}

/* The named prompts. */
static ln_status read_prompts(modules_reader *r) {
    static const char file[] = "config_sentence_transformers.json";
    ln_embedding *e = r->embedding;
    json_t *config, *text;
    const char *name;
    LN_TRY(read_json(r, "", file, &config));
    json_t *prompts = json_object_get(config, "prompts");
    size_t n = json_object_size(prompts);
    ln_status status = LINNET_OK;
    if (n > MAX_PROMPTS)
        status = ln_fail(r->err, LINNET_ERR_LIMIT, "%s: %s has %zu prompts", r->folder, file, n);
    else if (n > 0 && (e->prompts = ln_arena_alloc(r->arena, n, sizeof *e->prompts)) == NULL)
        status = ln_fail(r->err, LINNET_ERR_NOMEM, "out of memory reading %s", r->folder);
    json_object_foreach(prompts, name, text) {
        if (status != LINNET_OK || json_is_null(text))
            continue;
        if (!json_is_string(text)) {
            status = ln_fail(r->err, LINNET_ERR_FORMAT, "%s: %s: the prompt %.64s is no string",
                             r->folder, file, name);
            continue;
        }
        ln_prompt_text *prompt = &e->prompts[e->n_prompts++];
        prompt->name = ln_arena_copy(r->arena, name, strlen(name));
        prompt->text = ln_arena_copy(r->arena, json_string_value(text), json_string_length(text));
        if (r->skips_prompts && json_string_length(text) > 0)
            status = unsupported(r, file, "a prompt that include_prompt leaves out of pooling");
        else if (prompt->name == NULL || prompt->text == NULL)
            status = ln_fail(r->err, LINNET_ERR_NOMEM, "out of memory reading %s", r->folder);
    }
    if (status == LINNET_OK)
        status = find_default_prompt(r, file, json_object_get(config, "default_prompt_name"));
    json_decref(config);
    return status;
}

ln_status ln_embedding_read_modules(const char *folder, const ln_spec *spec, ln_arena *arena,
                                    ln_embedding *embedding, ln_error *err) {
    modules_reader r = {.folder = folder,
                        .spec = spec,
                        .arena = arena,
                        .embedding = embedding,
                        .width = spec->dim,
                        .err = err};
    size_t first[LN_MAX_STAGES] = {0};
    json_t *root;
    LN_TRY(read_json(&r, "", "modules.json", &root));
    if (root == NULL)
        return LINNET_OK;
    const json_t *list = json_object_get(root, "list");
    embedding->is_described = true;
    embedding->normalizes = false;
    ln_status status = LINNET_OK;
    if (!json_is_array(list) || json_array_size(list) > MAX_MODULES)
        status = ln_fail(err, LINNET_ERR_FORMAT, "%s: modules.json is no list", folder);
    for (size_t i = 0; status == LINNET_OK && i < json_array_size(list); i++)
        status = module(&r, json_array_get(list, i), first);
    json_decref(root);
    LN_TRY(status);
    LN_TRY(bind_dense(&r, first));
    LN_TRY(read_length(&r));
    return read_prompts(&r);
}
