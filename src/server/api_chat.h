/* The parts of a chat's body. */
#ifndef LN_SERVER_API_CHAT_H
#define LN_SERVER_API_CHAT_H

#include "server/api.h"

/* api_messages.c: checks the messages, and brings them to the form that templates expect. With
 * `fills_content`, for templates that do not know of calls, content that is null becomes "". */
bool ln_api_shape_messages(json_t *messages, bool fills_content, ln_api_error *error);

/* api_tools.c */

typedef struct ln_api_tools {
    const json_t *list; /* the body's; NULL: none that the model may see */
    const char *name;   /* of the one that must be called, the body's; NULL: any */
    bool must_call;
    bool many; /* more than one call in an answer */
} ln_api_tools;

/* Reads tools, tool_choice and parallel_tool_calls. */
bool ln_api_read_tools(const ln_fields *fields, ln_api_tools *tools);
/* The answer must be calls in the request's syntax. */
bool ln_api_require_calls(const ln_api_tools *tools, ln_api_request *request, ln_api_error *error);

#endif
