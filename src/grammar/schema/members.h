/* What a shape says of the members of an object: which names there are, and what their values
 * satisfy. */
#ifndef LN_GRAMMAR_SCHEMA_MEMBERS_H
#define LN_GRAMMAR_SCHEMA_MEMBERS_H

#include "grammar/schema/schema.h"

/* A member that the schemas name. */
typedef struct ln_named {
    const char *name;
    bool is_required, is_forbidden;
} ln_named;

/* Members that they do not name: those whose names are in one language are treated alike. */
typedef struct ln_key_class {
    const ln_dfa *names; /* NULL: all */
    uint64_t patterns;   /* bit i: it matches pattern i */
    ln_literals set;     /* of the values */
} ln_key_class;

enum { LN_MAX_KEY_PATTERNS = 24, LN_MAX_KEY_CLASSES = 256 };

typedef struct ln_members {
    ln_schema *schema;
    const ln_shape *shape;
    ln_named *named; /* [n_named] */
    size_t n_named, capacity;
    json_t *index; /* names to numbers; the schema's to free */
    const char *patterns[LN_MAX_KEY_PATTERNS];
    size_t n_patterns;
    ln_key_class classes[LN_MAX_KEY_CLASSES];
    size_t n_classes;
} ln_members;

/* Collects what the shape has, and what an atom speaks of that is none of its own (NULL: none); the
 * memory is the arena's. */
void ln_members_read(ln_members *m, ln_schema *s, const ln_shape *shape, const ln_atom *other);
/* What the value of a named member satisfies. */
ln_literals ln_members_of_name(ln_members *m, const char *name);
/* The languages of names that are not named, split by patterns. */
void ln_members_classify(ln_members *m);
/* Whether some member that `atom` speaks of has this name, or a name of this class. */
bool ln_members_speaks_of(ln_members *m, const ln_atom *atom, const char *name);
bool ln_members_speaks_of_class(ln_members *m, const ln_atom *atom, const ln_key_class *c);

#endif
