#include "engine/draft/sample.h"

#include "engine/request/request.h"

bool ln_draft_sample(ln_sampler *sampler, const ln_sequence *sequence, size_t number,
                     float *logits) {
    const linnet_request *request = sequence->group->request;
    double excess = sequence->mirostat_excess;
    ln_sample_context context = {.tokens = sequence->tokens,
                                 .n_tokens = sequence->n_tokens + number,
                                 .index = sequence->index,
                                 .rules = &request->rules,
                                 .mirostat_excess = &excess};
    int32_t token;
    if (ln_sampler_sample(sampler, &request->options.sampling, &context, logits, &token, NULL) !=
        LINNET_OK)
        return false;
    request->outputs[sequence->index].tokens[context.n_tokens] = token;
    return true;
}
