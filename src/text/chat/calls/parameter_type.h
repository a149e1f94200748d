/* What a tool's schema says of a parameter, whose value a model wrote without quotation marks. */
#ifndef LN_TEXT_CHAT_CALLS_PARAMETER_TYPE_H
#define LN_TEXT_CHAT_CALLS_PARAMETER_TYPE_H

#include <jansson.h>
#include <stdbool.h>

/* All types that a value may have, as bits. */
typedef enum ln_parameter_type {
    LN_PARAMETER_UNKNOWN = 0,
    LN_PARAMETER_TEXT = 1, /* alone: whatever it looks like */
    LN_PARAMETER_NULL = 2,
    LN_PARAMETER_BOOLEAN = 4,
    LN_PARAMETER_NUMBER = 8,
    LN_PARAMETER_OBJECT = 16,
    LN_PARAMETER_ARRAY = 32,
    LN_PARAMETER_OTHER = 62 /* all but text */
} ln_parameter_type;

/* Of a parameter of one of the tools, which are as clients send them. What lies within its value
 * follows behind line breaks: keys, or "item" of a list. */
ln_parameter_type ln_parameter_type_of(const json_t *tools, const char *tool,
                                       const char *parameter);
/* Whether a value of such a type may be that JSON. */
bool ln_parameter_may_be(ln_parameter_type type, const json_t *value);

#endif
