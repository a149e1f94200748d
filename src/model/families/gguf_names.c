/* How GGUF calls the tensors of most architectures. */
#include "model/family.h"

const char *ln_gguf_name(ln_role role, bool *is_bare) {
    static const struct {
        const char *name;
        bool is_bare;
    } usual[LN_ROLE_COUNT] = {
#include "model/families/gguf_names.inc"
    };
    *is_bare = usual[role].is_bare;
    return usual[role].name;
}
