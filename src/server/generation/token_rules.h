/* Rules about single tokens of an answer: biases, those that are allowed, words that never come. */
#ifndef LN_SERVER_GENERATION_TOKEN_RULES_H
#define LN_SERVER_GENERATION_TOKEN_RULES_H

#include "server/generation/request.h"
#include "server/json/fields.h"

/* Reads logit_bias, allowed_token_ids and bad_words into the request. */
bool ln_token_rules_read(const ln_fields *fields, const linnet_model *model,
                         const linnet_model_info *info, ln_generation_request *request);

#endif
