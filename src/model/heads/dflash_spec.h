/* Reading of a folder that drafts blocks for another model (DFlash), beside what any folder says.
 */
#ifndef LN_MODEL_HEADS_DFLASH_SPEC_H
#define LN_MODEL_HEADS_DFLASH_SPEC_H

#include "model/config.h"
#include "model/spec.h"

enum { LN_MAX_DRAFT_BLOCK = 64 }; /* tokens */

/* Whether config.json says that it is one, whatever model_type its layers have; *nest: where their
 * keys are. */
bool ln_spec_is_dflash(const ln_config *config, const char **nest);

/* How many tokens it can draft, by its output or else what it says; 0: as many as the model has. */
ln_status ln_spec_read_dflash_vocab(const ln_config *config, size_t most, ln_spec *spec,
                                    ln_error *err);

/* Sets spec->dflash and spec->eagle, and what layers see, once they are there. Errors: FORMAT,
 * UNSUPPORTED. */
ln_status ln_spec_read_dflash(const ln_config *config, ln_spec *spec, ln_error *err);

/* Checks that it fits a model, and takes over what it has not of its own. Errors: UNSUPPORTED. */
ln_status ln_spec_fit_dflash(ln_spec *spec, const ln_spec *model, const char *path, ln_error *err);

#endif
