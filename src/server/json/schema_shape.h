/* Whether a JSON Schema that only a template shows, and nothing compiles, has the shape of one. */
#ifndef LN_SERVER_JSON_SCHEMA_SHAPE_H
#define LN_SERVER_JSON_SCHEMA_SHAPE_H

#include <jansson.h>

/* Looks at the keywords that are known, at every depth; what is not known may be anything, as may
 * words of `type`, since templates show them all. A keyword that is null counts as absent. Returns
 * the keyword whose value is wrong, or "schema" for a schema that is no object; NULL: none. */
const char *ln_schema_find_fault(const json_t *schema);

#endif
