/* Tools of a chat: what may be called, and whether it must be. */
#ifndef LN_SERVER_GENERATION_CHAT_TOOLS_H
#define LN_SERVER_GENERATION_CHAT_TOOLS_H

#include "server/generation/request.h"
#include "server/json/fields.h"

typedef struct ln_api_tools {
    const json_t *list; /* the body's; NULL: none that the model may see */
    const char *name;   /* of the one that must be called, the body's; NULL: any */
    bool must_call;
    bool many;     /* more than one call in an answer */
    bool is_bound; /* calls need not come; those that do hold the grammar of a custom tool */
} ln_api_tools;

/* Rewrites the older fields functions and function_call, where they are there, as tools of which
 * one may be called. *is_legacy: they are. */
bool ln_api_shape_functions(const ln_fields *fields, bool *is_legacy);
/* Rewrites tools of type custom, and a tool_choice of one, as functions whose one parameter is the
 * text "input", with a regular expression as its pattern. *names: theirs, the caller's; NULL: there
 * are none. */
bool ln_api_shape_custom_tools(const ln_fields *fields, json_t **names);
/* Reads tools, tool_choice and parallel_tool_calls. */
bool ln_api_read_tools(const ln_fields *fields, ln_api_tools *tools);
/* Whether calls that need not come are to be bound: a custom tool has a grammar, and nothing else
 * shapes the answer; not in the syntaxes whose calls have a header in the turn's. */
bool ln_api_may_bind_calls(const ln_api_tools *tools, const ln_generation_request *request);
/* The answer must be calls in the request's syntax; or, of bound ones, text that has no other calls
 * in it. */
bool ln_api_shape_calls(const ln_api_tools *tools, ln_generation_request *request,
                        ln_api_error *error);

#endif
