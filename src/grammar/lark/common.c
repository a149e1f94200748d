/* The terminals of Lark's library `common', as regular expressions. */
#include <string.h>

#include "grammar/lark/lark.h"

#define INT     "[0-9]+"
#define DECIMAL "([0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXP     "([eE][+-]?[0-9]+)"
#define FLOAT   "([0-9]+" EXP "|" DECIMAL EXP "?)"
#define SIGN    "[+-]?"

static const struct {
    const char *name, *regex;
} terminals[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", INT},
    {"SIGNED_INT", SIGN INT},
    {"DECIMAL", DECIMAL},
    {"_EXP", EXP},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", SIGN FLOAT},
    {"NUMBER", "(" FLOAT "|" INT ")"},
    {"SIGNED_NUMBER", SIGN "(" FLOAT "|" INT ")"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

const char *ln_lark_common(const char *name, size_t n_bytes) {
    for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++)
        if (strlen(terminals[i].name) == n_bytes && memcmp(terminals[i].name, name, n_bytes) == 0)
            return terminals[i].regex;
    return NULL;
}
