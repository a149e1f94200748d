/* /tokenizer_info: what clients that render templates themselves must know, as vLLM gives it. */
#include <stdlib.h>

#include "model/model.h"
#include "server/api/model_of.h"
#include "server/api/routes.h"
#include "server/json/reply.h"
#include "text/chat/special_tokens.h"

void ln_endpoint_tokenizer_info(ln_context *context, ln_exchange *exchange) {
    const ln_served_model *served = ln_model_of(context, exchange);
    if (served == NULL)
        return;
    const linnet_model *model = served->model;
    ln_strbuf *out = &context->scratch;
    json_t *info = json_object();
    ln_strbuf_clear(out);
    bool done = info != NULL && served->tokenizer != NULL &&
                ln_chat_set_special_tokens(info, model->checkpoint, served->tokenizer) == 0 &&
                json_object_set_new(info, "tokenizer_class", json_string("linnet")) == 0 &&
                json_object_set_new(info, "model_max_length",
                                    json_integer((json_int_t)served->ctx_tokens)) == 0 &&
                json_object_set_new(info, "chat_template",
                                    model->chat_source != NULL ? json_string(model->chat_source)
                                                               : json_null()) == 0;
    char *text = done ? json_dumps(info, JSON_COMPACT) : NULL;
    json_decref(info);
    if (text != NULL)
        ln_strbuf_puts(out, text);
    free(text);
    if (out->len > 0) {
        ln_reply_json(exchange, out);
        return;
    }
    ln_api_error error = {0};
    ln_api_fail(&error, served->tokenizer == NULL ? 400 : 503, NULL, "%s",
                served->tokenizer == NULL ? "the model has no tokenizer" : "out of memory");
    ln_reply_error(exchange, &error);
}
