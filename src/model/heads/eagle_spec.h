/* Reading of a folder that is a head for another model (EAGLE-3), beside what any folder says. */
#ifndef LN_MODEL_HEADS_EAGLE_SPEC_H
#define LN_MODEL_HEADS_EAGLE_SPEC_H

#include "model/config.h"
#include "model/spec.h"

/* Whether config.json says that it is one, whatever model_type its layer has; *nest: where its keys
 * are. */
bool ln_spec_is_eagle(const ln_config *config, const char **nest);

/* Sets spec->eagle, once the layer is there. Errors: FORMAT, UNSUPPORTED. */
ln_status ln_spec_read_eagle(const ln_config *config, ln_spec *spec, ln_error *err);

/* The list of layers that a key of a folder or a file has; aux stays as it is where there is no
 * such key, or another one has been read. `behind`: is added to each. Errors: UNSUPPORTED. */
ln_status ln_spec_read_aux_layers(const ln_config *config, const char *key, size_t behind,
                                  ln_aux_layers *aux, ln_error *err);
/* Sets spec->eagle.model_dim, of which the head's matrix reads a row for each of its auxiliary
 * layers, and n_embedded. Errors: FORMAT. */
ln_status ln_spec_read_model_dim(const ln_config *config, ln_spec *spec, ln_error *err);

/* The layers of a model whose input the head reads. Errors: UNSUPPORTED. */
ln_status ln_eagle_aux_layers(const ln_spec *head, const ln_spec *model, ln_aux_layers *aux,
                              ln_error *err);

#endif
