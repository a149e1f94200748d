/* How chat models write tool calls, as data: a row says what stands around calls, names and
 * arguments. The one tool-call parser reads by it (call_reader.h) and the grammar of forced calls
 * writes by it (grammar/tools.c). */
#ifndef LN_TEXT_CHAT_CALLS_CALL_SYNTAX_H
#define LN_TEXT_CHAT_CALLS_CALL_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ln_call_form {
    LN_CALLS_JSON,     /* {"name": ..., "arguments": {...}}, perhaps several, perhaps in [ ] */
    LN_CALLS_NAMED,    /* a name, then arguments in JSON */
    LN_CALLS_TAGGED,   /* each argument for itself, between tags */
    LN_CALLS_PYTHON,   /* name(key=value), perhaps several, perhaps in [ ] */
    LN_CALLS_GEMMA,    /* call:name{key:value}, texts between quote marks of their own */
    LN_CALLS_HARMONY,  /* messages with headers, whose recipient is the tool */
    LN_CALLS_RECIPIENT /* likewise; the header is the tool's name */
} ln_call_form;

enum { LN_CALLS_MAX_ALSO = 3 };

/* begin (call NAME name_end ARGUMENTS call_end)+ end, with white space between these; ARGUMENTS of
 * TAGGED are (key KEY key_end value VALUE value_end)*. Texts that are not there are NULL. */
typedef struct ln_call_syntax {
    const char *name;
    ln_call_form form;
    const char *begin, *end;
    const char *also[LN_CALLS_MAX_ALSO]; /* that begin calls, too; one may be `call` itself */
    const char *call, *call_end;
    const char *name_end;
    const char *key, *key_end, *value, *value_end;
    const char *flag;      /* in KEY before flag_text, or what is not: the value is text, or JSON */
    const char *flag_text; /* NULL: true, and false where it is JSON */
    const char *address;   /* TAGGED: a header before every call, with its name and address_end */
    const char *address_end;
    const char *mark;          /* TAGGED: before every tag, in the texts above, too */
    const char *quote;         /* GEMMA: around texts */
    const char *prefix;        /* NAMED: before the name in it, less which it is the tool's */
    const char *type;          /* NAMED: a word before name_end, with the name behind it */
    const char *id_end;        /* NAMED: behind an id that stands before the name */
    const char *number;        /* TAGGED: behind the name, before a number and a quote mark */
    const char *name_key;      /* JSON: as written; read are all that are in use */
    const char *arguments_key; /* likewise */
    const char *between;       /* calls, as written */
    const char *line;          /* after a tag or around an object, as written: a line break */
    const char *value_line;    /* TAGGED: likewise around a value */
    bool in_list;              /* JSON, PYTHON: calls are written in [ ] */
    bool once;                 /* begin and end stand around every call */
    bool counts;               /* NAMED: the name has a number behind it, as name:0 */
    bool bare;                 /* calls may begin an answer without `begin` */
    bool ends_thinking;        /* a call within thoughts is one, and ends them */
    bool keyed;                /* JSON: {NAME: ARGUMENTS} */
    bool cdata;                /* TAGGED: values may stand in <![CDATA[ ]]> */
    bool nested;               /* TAGGED: <KEY>VALUE</KEY>, where values may be such elements */
} ln_call_syntax;

/* Chooses the tool-call syntax of a model: the one that its chat template's text shows; NULL: none
 * that is known. Static storage, as below. */
const ln_call_syntax *ln_call_syntax_detect(const char *chat_template, size_t n_bytes);
const ln_call_syntax *ln_call_syntax_find(const char *name); /* or NULL */
/* In the order of the table; NULL: there are no more. */
const ln_call_syntax *ln_call_syntax_at(size_t index);

enum { LN_CALLS_MAX_MARKERS = 14 };

/* All texts of the syntax that may be special tokens of a vocabulary, [returned]. */
size_t ln_call_syntax_markers(const ln_call_syntax *syntax,
                              const char *markers[LN_CALLS_MAX_MARKERS]);
/* The texts that begin calls, [returned]. */
size_t ln_call_syntax_begins(const ln_call_syntax *syntax,
                             const char *begins[LN_CALLS_MAX_ALSO + 1]);

#endif
