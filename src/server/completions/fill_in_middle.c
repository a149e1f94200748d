#include "server/completions/fill_in_middle.h"

#include <stdlib.h>
#include <string.h>

#include "model/model.h"

typedef struct fim_tokens {
    const char *prefix, *suffix, *middle; /* middle NULL: the suffix comes first, then the prefix */
} fim_tokens;

/* Qwen and StarCoder 2; StarCoder, Granite; CodeLlama; DeepSeek; GLM; Codestral. */
static const fim_tokens vocabularies[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>"},
    {"<PRE>", "<SUF>", "<MID>"},
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "hole\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
    {"[PREFIX]", "[SUFFIX]", NULL},
};

static int32_t find(const ln_tokenizer *tokenizer, const char *name) {
    return name != NULL ? ln_tokenizer_find(tokenizer, name, strlen(name)) : -1;
}

/* The first of the vocabularies whose tokens the model has; NULL: none. */
static const fim_tokens *choose(const ln_tokenizer *tokenizer) {
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        const fim_tokens *tokens = &vocabularies[i];
        if (find(tokenizer, tokens->prefix) >= 0 && find(tokenizer, tokens->suffix) >= 0 &&
            (tokens->middle == NULL || find(tokenizer, tokens->middle) >= 0))
            return tokens;
    }
    return NULL;
}

typedef struct id_list {
    int32_t *ids; /* room for all */
    size_t n_ids;
} id_list;

static void put(id_list *list, int32_t mark, const int32_t *ids, size_t n_ids) {
    list->ids[list->n_ids++] = mark;
    if (n_ids > 0)
        memcpy(list->ids + list->n_ids, ids, n_ids * sizeof *ids);
    list->n_ids += n_ids;
}

bool ln_fill_in_middle(ln_prompt *prompt, const char *suffix, const linnet_model *model,
                       const linnet_model_info *info, ln_shown_ids *shown, ln_api_error *error) {
    linnet_error err = {0};
    int32_t *after = NULL;
    size_t n_after = 0, n_begin = 0;
    const fim_tokens *tokens = model->tokenizer != NULL ? choose(model->tokenizer) : NULL;
    if (tokens == NULL)
        return ln_api_fail(error, 400, "suffix", "suffix: the model has no tokens for it");
    if (linnet_model_encode(model, suffix, strlen(suffix), false, false, &after, &n_after, &err) !=
        LINNET_OK)
        return ln_api_fail_with(error, &err, "suffix");
    id_list list = {.ids = malloc((prompt->n_ids + n_after + 4) * sizeof *list.ids)};
    if (list.ids == NULL) {
        linnet_free(after);
        return ln_api_fail_memory(error);
    }
    if (prompt->n_ids > 0 && prompt->ids[0] == info->bos_id) { /* stays the first */
        list.ids[list.n_ids++] = info->bos_id;
        n_begin = 1;
    }
    int32_t prefix_id = find(model->tokenizer, tokens->prefix);
    int32_t suffix_id = find(model->tokenizer, tokens->suffix);
    if (tokens->middle == NULL)
        put(&list, suffix_id, after, n_after);
    put(&list, prefix_id, prompt->ids + n_begin, prompt->n_ids - n_begin);
    size_t n_ahead = list.n_ids - prompt->n_ids; /* of the marks and the suffix */
    shown->begin = (shown->begin > n_begin ? shown->begin : n_begin) + n_ahead;
    shown->end += n_ahead;
    if (tokens->middle != NULL) {
        put(&list, suffix_id, after, n_after);
        put(&list, find(model->tokenizer, tokens->middle), NULL, 0);
    }
    linnet_free(after);
    linnet_free(prompt->ids);
    prompt->ids = list.ids;
    prompt->n_ids = list.n_ids;
    return true;
}
