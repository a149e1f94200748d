/* AltUp and Laurel (Gemma 3n): beside the residual stream there are others, which a layer predicts
 * from all of them and corrects by what it did to the first; and a path of low rank beside
 * attention. Their weights, and recording them. */
#ifndef LN_MODEL_LAYERS_ALTUP_H
#define LN_MODEL_LAYERS_ALTUP_H

#include "model/load_tensor.h"
#include "model/recorder.h"

/* How many streams there are beside the first, the path's rank, and which feed-forwards are sparse;
 * all layers are complete otherwise. */
ln_status ln_spec_read_altup(const ln_config *config, ln_spec *spec, ln_error *err);

/* The matrices between the first stream and the others: before the first layer, behind the last. */
ln_status ln_load_altup_begin(ln_loader *l);
ln_status ln_load_altup_end(ln_loader *l);
ln_status ln_load_layer_altup(ln_loader *l, size_t i, ln_layer_weights *w);

/* activations->streams from x, and all of them into x. */
void ln_record_altup_begin(recorder *r);
void ln_record_altup_end(recorder *r);

/* x and the other streams as the layer predicts them. */
void ln_record_altup_predict(recorder *r, const ln_layer_weights *w);
/* Laurel's path of `normed` beside attention, and x with it once attention has added to x. */
void ln_record_laurel(recorder *r, const ln_layer_weights *w, const float *normed);
void ln_record_add_laurel(recorder *r);
/* The streams corrected by what the layer did to x; with its embedding, which the others take. */
void ln_record_altup_correct(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w);

#endif
