/* The JSON of completions and chats, whole or as chunks of a stream. */
#ifndef LN_SERVER_GENERATION_OPENAI_WRITER_H
#define LN_SERVER_GENERATION_OPENAI_WRITER_H

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

/* One output of a prompt, and what of it was not sent yet. */
typedef struct ln_choice {
    uint32_t index;
    const ln_prompt *prompt;
    ln_strbuf text;        /* of a chat: content */
    ln_chat_answer answer; /* of a chat: reasoning, tool calls, and their parser */
    ln_strbuf logprobs[LN_LOGPROBS_COLUMNS];
    size_t n_logprobs;   /* in the columns */
    size_t offset_chars; /* text_offset of the next token: characters written by decoder */
    ln_detokenizer decoder;
    ln_strbuf piece; /* its output */
    size_t n_output_tokens, n_counted_tokens;
    linnet_finish finish; /* NONE: not over */
    bool has_begun;       /* a chunk was sent */
    bool has_prompt;      /* the echo was added */
    bool has_output;      /* and a token of output */
    bool is_dirty;        /* something is not sent */
    uint64_t last_ns;     /* of its last token */
} ln_choice;

/* What all chunks of an answer have in common. */
typedef struct ln_openai_writer {
    const ln_generation_request *request;
    const ln_tokenizer *tokenizer; /* NULL: none */
    const char *model;
    char id[48];
    int64_t created_s;
    ln_strbuf head; /* of every chunk, made by init; owned by the generation */
} ln_openai_writer;

/* Makes the head, once the other members are set. */
void ln_openai_writer_init(ln_openai_writer *writer);

typedef struct ln_usage {
    size_t n_prompt_tokens, n_output_tokens;
    size_t n_cached_tokens, n_reasoning_tokens; /* of these */
} ln_usage;

/* Before the logprobs of the prompt's tokens, and before those of a completion's output. */
void ln_openai_writer_begin_prompt(const ln_openai_writer *writer, ln_choice *choice);
void ln_openai_writer_begin_output(const ln_openai_writer *writer, ln_choice *choice);

/* Adds a token with its logprobs to a choice's columns; `has_logprob` false: null. */
void ln_openai_writer_logprob(const ln_openai_writer *writer, ln_choice *choice, int32_t token,
                              bool has_logprob, float logprob, const linnet_logprob *top,
                              size_t n_top);

/* Server-sent events. chunk writes what was not sent, and the end of a choice that is over. */
void ln_openai_writer_chunk(const ln_openai_writer *writer, ln_choice *choice, ln_strbuf *out);
void ln_openai_writer_usage_chunk(const ln_openai_writer *writer, const ln_usage *usage,
                                  ln_strbuf *out);

void ln_openai_writer_whole(const ln_openai_writer *writer, const ln_choice *choices,
                            size_t n_choices, const ln_usage *usage, ln_strbuf *out);

#endif
