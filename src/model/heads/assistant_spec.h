/* Reading of a folder that is an assistant of another model (Gemma 4), beside what any folder says.
 * It drafts from one position: its layers attend to keys and values of the model, and what it reads
 * is the embedding of the last token and a hidden state, the model's or that of its last draft. */
#ifndef LN_MODEL_HEADS_ASSISTANT_SPEC_H
#define LN_MODEL_HEADS_ASSISTANT_SPEC_H

#include "model/config.h"
#include "model/spec.h"

/* Sets spec->assisted_dim and first_position, once the layers are there. Errors: FORMAT. */
ln_status ln_spec_read_assistant(const ln_config *config, ln_spec *spec, ln_error *err);

/* Points its layers to the caches of a model, which are those of the last layers that see as they
 * do, and takes over the scale of that model's embedding. Errors: UNSUPPORTED. */
ln_status ln_spec_assist(ln_spec *spec, const ln_spec *model, const char *path, ln_error *err);

#endif
