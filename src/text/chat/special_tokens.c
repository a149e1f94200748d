#include "text/chat/special_tokens.h"

#include <stdio.h>

/* Sets `name` to a special token's text, as the template would see it in transformers: what
 * tokenizer_config.json says (a string, or an object with `content`), else the piece of `id`. */
static int set_token(json_t *context, const ln_checkpoint *checkpoint,
                     const ln_tokenizer *tokenizer, const char *name, int32_t id) {
    char key[64];
    ln_meta_value value;
    snprintf(key, sizeof key, "%s.content", name);
    bool found =
        ln_checkpoint_tokenizer_meta(checkpoint, name, &value) && value.kind == LN_META_STRING;
    found = found ||
            (ln_checkpoint_tokenizer_meta(checkpoint, key, &value) && value.kind == LN_META_STRING);
    size_t n_bytes = 0;
    const char *text = NULL;
    if (found) {
        text = value.string.data;
        n_bytes = value.string.bytes;
    } else if (id >= 0) {
        text = ln_tokenizer_piece(tokenizer, id, &n_bytes);
    }
    if (text == NULL)
        return 0;
    return json_object_set_new(context, name, json_stringn(text, n_bytes));
}

int ln_chat_set_special_tokens(json_t *context, const ln_checkpoint *checkpoint,
                               const ln_tokenizer *tokenizer) {
    int failed =
        set_token(context, checkpoint, tokenizer, "bos_token", ln_tokenizer_bos(tokenizer));
    failed |= set_token(context, checkpoint, tokenizer, "eos_token", ln_tokenizer_eos(tokenizer));
    failed |= set_token(context, checkpoint, tokenizer, "unk_token", -1);
    return failed | set_token(context, checkpoint, tokenizer, "pad_token", -1);
}
