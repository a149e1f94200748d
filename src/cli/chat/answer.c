#include "cli/chat/answer.h"

#include <stdio.h>

#include "base/error.h"
#include "cli/chat/chat_printer.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "model/model.h"

/* Keeps what the model said, or gives the question up when it said nothing. */
static void keep_answer(ln_chat *chat, const ln_strbuf *text) {
    if (text->len == 0)
        ln_conversation_drop_last(&chat->conversation, "user");
    else if (text->failed ||
             !ln_conversation_add(&chat->conversation, "assistant", text->data, text->len))
        ln_cli_fail("out of memory: the answer is not part of the conversation");
}

static bool generate(ln_chat *chat, const int32_t *ids, size_t n_ids, const char *prompt) {
    ln_chat_printer printer;
    ln_chat_printer_init(&printer, chat->model->tokenizer, prompt, chat->has_colour);
    linnet_request_options request;
    linnet_request_options_init(&request);
    request.prompt_ids = ids;
    request.n_prompt_ids = n_ids;
    request.max_tokens = chat->max_tokens;
    request.adapter = chat->adapter;
    request.sampling = chat->sampling;
    request.keep_special = printer.shows_markers;
    if (!chat->editing)
        ln_interrupt_hold();
    int status =
        ln_cli_generate(chat->engine, &request, false, chat->quiet, &printer.sink, &chat->answered);
    if (!chat->editing)
        ln_interrupt_release();
    ln_interrupt_forget();
    chat->failed |= status != 0;
    bool open = ln_chat_printer_finish(&printer);
    if (open && (printer.text.len > 0 || status == 0))
        open = ln_cli_write("\n", 1);
    keep_answer(chat, &printer.text);
    ln_chat_printer_free(&printer);
    if (status == 0 && chat->answered.finish == LINNET_FINISH_LENGTH &&
        chat->answered.n_prompt_tokens + chat->answered.n_output_tokens >= chat->ctx_tokens)
        ln_cli_warn("the answer ends where the context of %zu tokens is full", chat->ctx_tokens);
    return open;
}

/* Encodes the conversation. Where the context has no room for it and an answer, the oldest messages
 * are forgotten until half of it is free, so that this happens once in many messages: what comes
 * behind them is to be read anew. */
static linnet_status encode(ln_chat *chat, int32_t **ids, size_t *n_ids, char **prompt,
                            linnet_error *err) {
    size_t quarter = chat->ctx_tokens / 4, before = chat->n_forgotten;
    size_t room = chat->max_tokens > 0 && chat->max_tokens < quarter ? chat->max_tokens : quarter;
    size_t most = chat->ctx_tokens - room;
    for (;;) {
        LN_TRY(ln_conversation_encode(&chat->conversation, chat->n_forgotten, chat->model, ids,
                                      n_ids, prompt, err));
        size_t n_read = ln_conversation_count(&chat->conversation) - chat->n_forgotten;
        if (*n_ids <= most || n_read < 3)
            break;
        linnet_free(*ids);
        linnet_free(*prompt);
        most = chat->ctx_tokens / 2;
        chat->n_forgotten += 2; /* a question and its answer */
    }
    if (chat->n_forgotten > before)
        fprintf(stderr, "(the context is full: the model no longer sees the first %s)\n",
                ln_cli_count_text(chat->n_forgotten, "message").text);
    return LINNET_OK;
}

bool ln_chat_answer(ln_chat *chat) {
    linnet_error err = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    char *prompt = NULL;
    if (encode(chat, &ids, &n_ids, &prompt, &err) != LINNET_OK) {
        ln_cli_fail_with(&err);
        ln_conversation_drop_last(&chat->conversation, "user");
        chat->failed = true;
        return true;
    }
    bool goes_on = true;
    if (n_ids < chat->ctx_tokens) {
        goes_on = generate(chat, ids, n_ids, prompt);
    } else {
        ln_cli_fail("the message has %zu tokens, too many for the context of %zu; --ctx N gives "
                    "more room",
                    n_ids, chat->ctx_tokens);
        ln_conversation_drop_last(&chat->conversation, "user");
        chat->failed = true;
    }
    linnet_free(ids);
    linnet_free(prompt);
    return goes_on;
}
