/* One output of a prompt, and what of it was not sent yet. */
#ifndef LN_SERVER_GENERATION_CHOICE_H
#define LN_SERVER_GENERATION_CHOICE_H

#include <linnet.h>

#include "server/generation/chat_answer.h"
#include "server/generation/request.h"
#include "text/tokenizer/tokenizer.h"

/* The columns that logprobs are collected in, as JSON without the outer brackets: chats have one,
 * with an object per token; completions have four. */
enum {
    LN_LOGPROBS_TOKENS = 0,
    LN_LOGPROBS_CHOSEN,
    LN_LOGPROBS_TOP,
    LN_LOGPROBS_OFFSETS,
    LN_LOGPROBS_COLUMNS
};

typedef struct ln_choice {
    uint32_t index;
    const ln_prompt *prompt;
    ln_strbuf text;        /* of a completion */
    ln_chat_answer answer; /* of a chat: its parts, and their parser */
    ln_strbuf logprobs[LN_LOGPROBS_COLUMNS];
    ln_strbuf prompt_logprobs; /* a JSON list, where it is wanted */
    ln_strbuf token_ids;       /* with commas, where they are wanted */
    size_t n_logprobs;         /* in the columns */
    size_t n_sent_bytes;       /* of the first column, where its format keeps it */
    size_t offset_chars;       /* text_offset of the next token: characters written by decoder */
    ln_detokenizer decoder;
    ln_strbuf piece; /* its output */
    size_t n_output_tokens, n_counted_tokens;
    linnet_finish finish; /* NONE: not over */
    int32_t stop_index;   /* of the stop string that ended it; -1: none */
    bool has_begun;       /* a chunk was sent */
    bool has_prompt;      /* the echo was added */
    bool has_output;      /* and a token of output */
    bool is_dirty;        /* something is not sent */
    uint64_t last_ns;     /* of its last token */
} ln_choice;

typedef struct ln_usage {
    size_t n_prompt_tokens, n_output_tokens;
    size_t n_cached_tokens, n_reasoning_tokens; /* of these */
    size_t n_accepted_prediction, n_rejected_prediction;
} ln_usage;

#endif
