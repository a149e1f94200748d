#include "model/adapter/find.h"

#include <stdio.h>
#include <string.h>

ln_adapter_part *ln_adapter_find_part(const ln_adapter_file *file, const ln_family *family,
                                      ln_tensor_id id, const ln_binding **binding) {
    char name[LN_TENSOR_NAME_BYTES], placed[LN_TENSOR_NAME_BYTES];
    bool is_hf = file->format == LN_FORMAT_HF, is_bare;
    for (size_t i = 0; (*binding = ln_family_binding(family, file->format, id, i)) != NULL; i++) {
        ln_binding_pattern(*binding, file->format, &is_bare);
        if (is_bare)
            continue;
        ln_binding_name(*binding, file->format, id, name);
        name[strlen(name) - strlen(".weight")] = '\0';
        ln_adapter_part *part = is_hf ? NULL : ln_adapter_file_find(file, name);
        for (size_t j = 0; is_hf && part == NULL && ln_family_place(family, name, j, placed); j++)
            part = ln_adapter_file_find(file, placed);
        if (part != NULL)
            return part;
    }
    return NULL;
}

/* ---- stacks of experts --------------------------------------------------------------------- */

/* The module of all experts, from the name of one's matrix or of a stack's; false: it has none. */
static bool name_experts(const ln_binding *binding, ln_tensor_id id,
                         char name[LN_TENSOR_NAME_BYTES]) {
    ln_binding_name(binding, LN_FORMAT_HF, id, name);
    char *at = strstr(name, ".experts.");
    if (at == NULL)
        return false;
    at[strlen(".experts")] = '\0';
    return true;
}

/* How the part's rows divide, where it has the shape for the role. */
static bool fits(const ln_spec *spec, ln_tensor_id id, const ln_binding *binding,
                 ln_adapter_part *part, ln_adapter_expert *expert) {
    const ln_ffn_spec *ffn = &spec->layers[id.layer].ffn;
    const ln_moe_spec *moe = &ffn->moe;
    size_t dim = moe->n_latent > 0 ? moe->n_latent : spec->dim;
    bool is_down = id.role == LN_ROLE_EXPERT_DOWN, is_up = id.role == LN_ROLE_EXPERT_UP;
    bool is_joined = !is_down && ffn->gated, by_row = binding->hf_part == LN_PART_GATE_UP_BY_ROW;
    *expert = (ln_adapter_expert){.part = part,
                                  .n_out = is_down ? dim : moe->n_hidden,
                                  .n_in = is_down ? moe->n_hidden : dim,
                                  .row_step = is_joined && by_row ? 2 : 1};
    if (is_joined && is_up)
        expert->row_begin = by_row ? 1 : moe->n_hidden;
    return part->n_experts == moe->n_experts && part->a->dims[1] == expert->n_in &&
           part->b->dims[0] == expert->n_out * (is_joined ? 2 : 1);
}

/* The same of the module or, where PEFT changes two of its stacks, of what lies inside. */
static bool find_stack(const ln_adapter_file *file, const ln_spec *spec, ln_tensor_id id,
                       const ln_binding *binding, const char *module, ln_adapter_expert *expert) {
    static const char *const ends[] = {"", ".base_layer"};
    char placed[LN_TENSOR_NAME_BYTES], name[LN_TENSOR_NAME_BYTES + 16];
    for (size_t i = 0; ln_family_place(spec->family, module, i, placed); i++) {
        for (size_t end = 0; end < sizeof ends / sizeof *ends; end++) {
            snprintf(name, sizeof name, "%s%s", placed, ends[end]);
            ln_adapter_part *part = ln_adapter_file_find(file, name);
            if (part != NULL && part->n_experts > 0 && fits(spec, id, binding, part, expert))
                return true;
        }
    }
    return false;
}

bool ln_adapter_find_experts(const ln_adapter_file *file, const ln_spec *spec, ln_tensor_id id,
                             ln_adapter_expert *expert) {
    static const char old[] = ".block_sparse_moe.";
    char name[LN_TENSOR_NAME_BYTES], other[LN_TENSOR_NAME_BYTES];
    const ln_binding *binding;
    for (size_t i = 0; file->format == LN_FORMAT_HF &&
                       (binding = ln_family_binding(spec->family, LN_FORMAT_HF, id, i)) != NULL;
         i++) {
        if (!name_experts(binding, id, name))
            continue;
        if (find_stack(file, spec, id, binding, name, expert))
            return true;
        const char *at = strstr(name, old); /* what is called mlp today */
        if (at == NULL)
            continue;
        snprintf(other, sizeof other, "%.*s.mlp.%s", (int)(at - name), name, at + strlen(old));
        if (find_stack(file, spec, id, binding, other, expert))
            return true;
    }
    return false;
}
