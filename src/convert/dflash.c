#include "convert/dflash.h"

#include "convert/metadata.h"
#include "convert/parts.h"

const char *ln_convert_unknown_dflash(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    if (spec->dflash.block_tokens == 0)
        return NULL;
    for (size_t i = 1; i < spec->n_layers; i++)
        if (spec->layers[i].attention.sees_all != spec->layers[0].attention.sees_all)
            return "layers of which some see tokens ahead";
    return ln_checkpoint_find(plan->checkpoint, "d2t") != NULL
               ? "tokens that are a part of a model's"
               : NULL;
}

void ln_convert_put_dflash(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    const ln_spec *spec = plan->spec;
    const ln_aux_layers *aux = &spec->eagle.aux_layers;
    int32_t layers[LN_MAX_AUX_LAYERS];
    if (spec->dflash.block_tokens == 0)
        return;
    for (size_t i = 0; i < aux->n; i++)
        layers[i] = (int32_t)aux->layers[i];
    ln_gguf_put_array(writer, ln_convert_key_of(plan, "target_layers").text, LN_GGUF_I32, layers,
                      aux->n);
    ln_gguf_put_u32(writer, ln_convert_key_of(plan, "block_size").text,
                    (uint32_t)spec->dflash.block_tokens);
    ln_gguf_put_bool(writer, ln_convert_key_of(plan, "attention.causal").text,
                     !spec->layers[0].attention.sees_all);
    ln_gguf_put_u32(writer, "tokenizer.ggml.mask_token_id", (uint32_t)spec->dflash.mask_token);
    if (spec->dflash.says_scale && spec->embedding_scale == 1)
        ln_gguf_put_f32(writer, ln_convert_key_of(plan, "embedding_scale").text, 1);
}

ln_status ln_convert_dflash(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    const ln_eagle_spec *own = &spec->eagle;
    ln_tensor_id id = {.role = LN_ROLE_HEAD_INPUT};
    if (spec->dflash.block_tokens == 0)
        return LINNET_OK;
    if (own->n_embedded > 0)
        LN_TRY(
            ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_EMBEDDING), own->n_embedded, spec->dim));
    if (spec->dflash.has_output)
        LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_OUTPUT), spec->n_vocab, spec->dim));
    LN_TRY(ln_convert_matrix(plan, id, spec->dim, own->aux_layers.n * own->model_dim));
    return ln_convert_norm(plan, ln_id_as(id, LN_ROLE_HEAD_HIDDEN_NORM), spec->dim);
}
