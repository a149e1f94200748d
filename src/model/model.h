/* A model: checkpoint, spec, tokenizer and chat template; what linnet_model is. Immutable. */
#ifndef LN_MODEL_MODEL_H
#define LN_MODEL_MODEL_H

#include "format/checkpoint.h"
#include "model/embedding/embedding.h"
#include "model/generation/forbidden.h"
#include "model/spec.h"
#include "text/jinja/template.h"
#include "text/tokenizer/tokenizer.h"

struct linnet_model {
    ln_checkpoint *checkpoint;
    ln_arena arena; /* what the spec points to */
    ln_spec spec;
    ln_embedding embedding;
    ln_tokenizer *tokenizer; /* NULL: the checkpoint has none */
    const char *chat_source; /* of the template, NULL: none; the checkpoint's or own_source */
    char *own_source;        /* NULL: none; owned */
    ln_jinja_template *chat_template; /* NULL: none, or it does not compile */
    ln_jinja_template *pair_template; /* of pairs that are questions; NULL: chat_template */
    char *name;
    int32_t bos_id;    /* -1: none */
    int32_t *stop_ids; /* [n_stop_ids], ascending */
    size_t n_stop_ids;
    int32_t forced_end_id;  /* in place of the last token of a text that is cut; -1: none */
    ln_forbidden forbidden; /* what never comes */
    size_t n_outside_ids;   /* that end a text, but past the vocabulary */
};

/* As linnet_model_open and linnet_model_close. */
ln_status ln_model_open(const char *path, linnet_model **model, ln_error *err);
void ln_model_close(linnet_model *model); /* NULL is fine */

/* Errors: STATE where the checkpoint has no tokenizer. */
ln_status ln_model_need_tokenizer(const linnet_model *model, ln_error *err);

/* As linnet_model_set_chat_template. */
ln_status ln_model_set_chat_template(linnet_model *model, const char *source, size_t n_bytes,
                                     ln_error *err);

#endif
