/* Reading of the head that some checkpoints have behind their last layer: it predicts a token more
 * (multi-token prediction). */
#ifndef LN_MODEL_HEADS_HEAD_SPEC_H
#define LN_MODEL_HEADS_HEAD_SPEC_H

#include "model/config.h"
#include "model/spec.h"

/* Sets spec->mtp, once the layers are there: a layer like the last one that sees all, with experts
 * where the head has a router. Without a head, or with one that cannot run (an indexer of its own;
 * no layer that sees all), it stays NULL. */
void ln_spec_read_head(const ln_config *config, ln_spec *spec);

#endif
