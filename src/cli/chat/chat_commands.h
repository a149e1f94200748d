/* The commands that a person types in `linnet chat`. */
#ifndef LN_CLI_CHAT_CHAT_COMMANDS_H
#define LN_CLI_CHAT_CHAT_COMMANDS_H

#include "cli/chat/answer.h"

/* Runs a line that begins with '/'. What it prints goes to stderr, but an answer to stdout. */
void ln_chat_command(ln_chat *chat, char *line);

#endif
