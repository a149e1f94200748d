#include "engine/draft/forced.h"

#include "engine/request/request.h"

size_t ln_draft_forced(ln_masker *masker, const ln_sequence *sequence, size_t n_most) {
    const linnet_request *request = sequence->group->request;
    size_t n_prompt = sequence->group->n_prompt, n = 0;
    if (request->grammar == NULL)
        return 0;
    int32_t *tokens = request->outputs[sequence->index].tokens;
    ln_grammar_state state = sequence->grammar_state; /* runs ahead */
    for (; n < n_most; n++) {
        size_t n_tokens = sequence->n_tokens + n;
        int32_t id = ln_masker_forced(masker, request->grammar, &state, tokens + n_prompt,
                                      n_tokens - n_prompt, request->rules.stop_ids,
                                      request->rules.n_stop_ids);
        if (id < 0)
            break;
        tokens[n_tokens] = id;
    }
    return n;
}
