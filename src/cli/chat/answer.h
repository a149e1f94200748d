/* The state of `linnet chat`, and the answers of the model. */
#ifndef LN_CLI_CHAT_ANSWER_H
#define LN_CLI_CHAT_ANSWER_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/chat/conversation.h"
#include "cli/generate.h"

typedef struct ln_chat {
    linnet_model *model;
    linnet_engine *engine;
    size_t ctx_tokens;
    ln_conversation conversation;
    linnet_sampling sampling;
    size_t max_tokens;          /* of an answer; 0: until the context is full */
    size_t n_forgotten;         /* the oldest messages, which the context has no room for */
    const char *adapter;        /* that answers have; NULL: none */
    ln_cli_generation answered; /* the last answer */
    bool editing;               /* on a terminal */
    bool has_colour;            /* stdout is a terminal that may show it */
    bool quits;
    bool failed; /* a message has no answer, or a command did nothing */
    bool quiet;  /* nothing but answers, and errors */
} ln_chat;

/* Answers the conversation's last message on stdout and adds the answer to it; what was
 * interrupted counts as far as it came. When the context has no room, the oldest messages are no
 * longer read. Without an answer the message is dropped, and what failed
 * was printed. False when stdout is closed. */
bool ln_chat_answer(ln_chat *chat);

#endif
