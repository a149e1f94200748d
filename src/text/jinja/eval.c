/* Expressions: the tree, evaluated; and calls of whatever can be called. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/run.h"

/* ---- scopes ----------------------------------------------------------------------------- */

ln_status ln_jinja_scope_new(ln_jinja_run *run, ln_jinja_scope *parent, ln_jinja_scope **out) {
    LN_TRY(ln_jinja_alloc(run, 1, sizeof **out, out));
    (*out)->parent = parent;
    return LINNET_OK;
}

ln_status ln_jinja_scope_set(ln_jinja_run *run, ln_jinja_scope *scope, uint32_t symbol,
                             ln_jinja_value value) {
    for (size_t i = 0; i < scope->n_bindings; i++)
        if (scope->bindings[i].symbol == symbol) {
            scope->bindings[i].value = value;
            return LINNET_OK;
        }
    if (scope->n_bindings == scope->capacity) {
        size_t capacity = scope->capacity * 2 + 4;
        ln_jinja_binding *bindings;
        LN_TRY(ln_jinja_alloc(run, capacity, sizeof *bindings, &bindings));
        if (scope->n_bindings > 0)
            memcpy(bindings, scope->bindings, scope->n_bindings * sizeof *bindings);
        scope->bindings = bindings;
        scope->capacity = capacity;
    }
    scope->bindings[scope->n_bindings++] = (ln_jinja_binding){.symbol = symbol, .value = value};
    return LINNET_OK;
}

static ln_status lookup(ln_jinja_run *run, const ln_jinja_scope *scope, uint32_t symbol,
                        ln_jinja_value *out) {
    for (; scope != NULL; scope = scope->parent) {
        LN_TRY(ln_jinja_spend(run, scope->n_bindings / 16));
        for (size_t i = 0; i < scope->n_bindings; i++)
            if (scope->bindings[i].symbol == symbol) {
                *out = scope->bindings[i].value;
                return LINNET_OK;
            }
    }
    *out = run->globals[symbol];
    if (out->kind != LN_JINJA_MISSING)
        return LINNET_OK;
    return ln_jinja_undefined_name(run, *out, ln_jinja_of_string(run->program->symbols[symbol]),
                                   out);
}

static ln_status unpack(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_nodes *targets,
                        ln_jinja_value value) {
    ln_jinja_iter iter;
    ln_jinja_value item;
    bool done;
    if (!ln_jinja_is_iterable(value))
        return ln_jinja_raise(run, "TypeError", "cannot unpack non-iterable %s object",
                              ln_jinja_type_name(value));
    LN_TRY(ln_jinja_iter_init(run, &iter, value));
    for (uint32_t i = 0; i < targets->count; i++) {
        LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
        if (done)
            return ln_jinja_raise(run, "ValueError",
                                  "not enough values to unpack (expected %u, got %u)",
                                  targets->count, i);
        LN_TRY(ln_jinja_assign(run, scope, targets->items[i], item));
    }
    LN_TRY(ln_jinja_iter_next(run, &iter, &item, &done));
    if (!done)
        return ln_jinja_raise(run, "ValueError", "too many values to unpack (expected %u)",
                              targets->count);
    return LINNET_OK;
}

ln_status ln_jinja_assign(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *target,
                          ln_jinja_value value) {
    if (target->kind == LN_JINJA_NODE_NAME)
        return ln_jinja_scope_set(run, scope, target->as.symbol, value);
    if (target->kind == LN_JINJA_NODE_TUPLE)
        return unpack(run, scope, &target->as.list, value);
    ln_jinja_value object;
    LN_TRY(lookup(run, scope, target->as.namespace_ref.symbol, &object));
    if (object.kind != LN_JINJA_NAMESPACE)
        return ln_jinja_raise(run, "TemplateRuntimeError",
                              "cannot assign attribute on non-namespace object");
    return ln_jinja_dict_set(run, object.as.dict, ln_jinja_of_string(target->as.namespace_ref.name),
                             value);
}

/* ---- calls ------------------------------------------------------------------------------ */

enum { MAX_PARAMETERS = 8 };

/* The index of a parameter in "first second ", or -1. */
static int find_parameter(const char *parameters, const ln_jinja_string *name) {
    int index = 0;
    for (const char *at = parameters; *at != '\0'; index++) {
        const char *end = strchr(at, ' ');
        if ((size_t)(end - at) == name->n_bytes &&
            memcmp(at, ln_jinja_bytes(name), name->n_bytes) == 0)
            return index;
        at = end + 1;
    }
    return -1;
}

ln_status ln_jinja_invoke(ln_jinja_run *run, const ln_jinja_builtin *builtin, ln_jinja_value self,
                          const ln_jinja_args *args, ln_jinja_value *out) {
    ln_jinja_args bound = *args;
    ln_jinja_value values[MAX_PARAMETERS] = {{0}};
    LN_TRY(ln_jinja_spend(run, 1));
    if (builtin->parameters == NULL)
        return builtin->fn(run, self, &bound, out);
    size_t n_parameters = 0;
    for (const char *c = builtin->parameters; *c != '\0'; c++)
        n_parameters += *c == ' ';
    if (args->n_positional > n_parameters)
        return ln_jinja_raise(run, "TypeError", "%s() takes at most %zu arguments (%zu given)",
                              builtin->name, n_parameters, args->n_positional);
    for (size_t i = 0; i < args->n_positional; i++)
        values[i] = args->positional[i];
    for (size_t i = 0; i < args->n_named; i++) {
        const ln_jinja_string *name = args->named[i].name;
        int index = find_parameter(builtin->parameters, name);
        if (index < 0 || values[index].kind != LN_JINJA_MISSING)
            return ln_jinja_raise(run, "TypeError", "%s() got %s argument '%.*s'", builtin->name,
                                  index < 0 ? "an unexpected keyword" : "multiple values for",
                                  (int)(name->n_bytes < 100 ? name->n_bytes : 100),
                                  ln_jinja_bytes(name));
        values[index] = args->named[i].value;
    }
    const char *name = builtin->parameters;
    for (size_t i = 0; i < builtin->n_required; i++, name = strchr(name, ' ') + 1)
        if (values[i].kind == LN_JINJA_MISSING)
            return ln_jinja_raise(run, "TypeError",
                                  "%s() missing required positional argument: '%.*s'",
                                  builtin->name, (int)strcspn(name, " "), name);
    bound = (ln_jinja_args){.positional = values, .n_positional = n_parameters};
    return builtin->fn(run, self, &bound, out);
}

/* What methods of Markup return is Markup. Methods of strings return fresh strings. */
static void keep_markup(ln_jinja_value self, ln_jinja_value result) {
    if (!self.as.string->markup)
        return;
    if (result.kind == LN_JINJA_STRING)
        result.as.string->markup = true;
    bool list = result.kind == LN_JINJA_LIST || result.kind == LN_JINJA_TUPLE;
    for (size_t i = 0; list && i < result.as.list->n_items; i++)
        if (result.as.list->items[i].kind == LN_JINJA_STRING)
            result.as.list->items[i].as.string->markup = true;
}

ln_status ln_jinja_call(ln_jinja_run *run, ln_jinja_value callee, const ln_jinja_args *args,
                        ln_jinja_value *out) {
    ln_jinja_value none = {.kind = LN_JINJA_MISSING};
    switch (callee.kind) {
    case LN_JINJA_FUNCTION: return ln_jinja_invoke(run, callee.as.function, none, args, out);
    case LN_JINJA_METHOD:
        LN_TRY(ln_jinja_invoke(run, callee.as.method->builtin, callee.as.method->self, args, out));
        if (callee.as.method->self.kind == LN_JINJA_STRING)
            keep_markup(callee.as.method->self, *out);
        return LINNET_OK;
    case LN_JINJA_MACRO: return ln_jinja_call_macro(run, callee.as.macro, args, out);
    case LN_JINJA_LOOP: return ln_jinja_call_loop(run, callee.as.loop, args, out);
    case LN_JINJA_JOINER:
        *out = callee.as.cycler->items->items[0];
        if (callee.as.cycler->position == 0)
            LN_TRY(ln_jinja_string_c(run, "", out));
        callee.as.cycler->position = 1;
        return LINNET_OK;
    case LN_JINJA_UNDEFINED: return ln_jinja_raise_undefined(run, callee);
    default:
        return ln_jinja_raise(run, "TypeError", "'%s' object is not callable",
                              ln_jinja_type_name(callee));
    }
}

static ln_status eval_rest(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                           ln_jinja_args *args) {
    ln_jinja_value rest, list;
    LN_TRY(ln_jinja_eval(run, scope, node, &rest));
    LN_TRY(ln_jinja_to_list(run, rest, &list));
    ln_jinja_value *all;
    size_t n = args->n_positional + list.as.list->n_items;
    LN_TRY(ln_jinja_alloc(run, n, sizeof *all, &all));
    if (args->n_positional > 0)
        memcpy(all, args->positional, args->n_positional * sizeof *all);
    for (size_t i = args->n_positional; i < n; i++)
        all[i] = list.as.list->items[i - args->n_positional];
    args->positional = all;
    args->n_positional = n;
    return LINNET_OK;
}

static ln_status eval_rest_named(ln_jinja_run *run, ln_jinja_scope *scope,
                                 const ln_jinja_node *node, ln_jinja_args *args) {
    ln_jinja_value rest;
    LN_TRY(ln_jinja_eval(run, scope, node, &rest));
    if (rest.kind != LN_JINJA_DICT)
        return ln_jinja_raise(run, "TypeError", "argument after ** must be a mapping, not %s",
                              ln_jinja_type_name(rest));
    const ln_jinja_dict *dict = rest.as.dict;
    ln_jinja_named *all;
    LN_TRY(ln_jinja_alloc(run, args->n_named + dict->n_pairs, sizeof *all, &all));
    if (args->n_named > 0)
        memcpy(all, args->named, args->n_named * sizeof *all);
    for (size_t i = 0; i < dict->n_pairs; i++) {
        if (dict->pairs[i].key.kind != LN_JINJA_STRING)
            return ln_jinja_raise(run, "TypeError", "keywords must be strings");
        const ln_jinja_string *name = dict->pairs[i].key.as.string;
        for (size_t k = 0; k < args->n_named; k++)
            if (ln_jinja_string_equal(all[k].name, name))
                return ln_jinja_raise(run, "TypeError",
                                      "got multiple values for keyword argument %s",
                                      ln_jinja_quote(run, dict->pairs[i].key));
        all[args->n_named + i] = (ln_jinja_named){.name = name, .value = dict->pairs[i].item};
    }
    args->named = all;
    args->n_named += dict->n_pairs;
    return LINNET_OK;
}

ln_status ln_jinja_eval_args(ln_jinja_run *run, ln_jinja_scope *scope,
                             const ln_jinja_call_args *nodes, ln_jinja_args *args) {
    *args = (ln_jinja_args){.n_positional = nodes->positional.count, .n_named = nodes->named.count};
    if (args->n_positional > 0)
        LN_TRY(ln_jinja_alloc(run, args->n_positional, sizeof(ln_jinja_value), &args->positional));
    if (args->n_named > 0)
        LN_TRY(ln_jinja_alloc(run, args->n_named, sizeof(ln_jinja_named), &args->named));
    for (size_t i = 0; i < args->n_positional; i++)
        LN_TRY(ln_jinja_eval(run, scope, nodes->positional.items[i], &args->positional[i]));
    for (size_t i = 0; i < args->n_named; i++) {
        args->named[i].name = nodes->names[i];
        LN_TRY(ln_jinja_eval(run, scope, nodes->named.items[i], &args->named[i].value));
    }
    if (nodes->rest != NULL)
        LN_TRY(eval_rest(run, scope, nodes->rest, args));
    if (nodes->rest_named != NULL)
        LN_TRY(eval_rest_named(run, scope, nodes->rest_named, args));
    return LINNET_OK;
}

static ln_status eval_call(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                           ln_jinja_value *out) {
    ln_jinja_value callee;
    ln_jinja_args args;
    LN_TRY(ln_jinja_eval(run, scope, node->as.call.callee, &callee));
    LN_TRY(ln_jinja_eval_args(run, scope, &node->as.call.args, &args));
    run->line = node->line;
    return ln_jinja_call(run, callee, &args, out);
}

/* A filter or a test over an operand that is evaluated already. */
static ln_status apply(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                       ln_jinja_value operand, ln_jinja_value *out) {
    const ln_jinja_string *name = node->as.apply.name;
    ln_jinja_args args;
    LN_TRY(ln_jinja_eval_args(run, scope, &node->as.apply.args, &args));
    run->line = node->line;
    if (node->as.apply.builtin == NULL)
        return ln_jinja_raise(run, "TemplateRuntimeError", "No %s named '%.*s' found.",
                              node->kind == LN_JINJA_NODE_FILTER ? "filter" : "test",
                              (int)(name->n_bytes < 100 ? name->n_bytes : 100),
                              ln_jinja_bytes(name));
    return ln_jinja_invoke(run, node->as.apply.builtin, operand, &args, out);
}

ln_status ln_jinja_eval_filter(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                               ln_jinja_value operand, ln_jinja_value *out) {
    if (node->as.apply.operand != NULL) {
        LN_TRY(ln_jinja_enter(run));
        LN_TRY(ln_jinja_eval_filter(run, scope, node->as.apply.operand, operand, &operand));
        ln_jinja_leave(run);
    }
    return apply(run, scope, node, operand, out);
}

/* ---- operators -------------------------------------------------------------------------- */

static ln_status relate(ln_jinja_run *run, ln_jinja_relation relation, ln_jinja_value left,
                        ln_jinja_value right, bool *holds) {
    ln_status status;
    switch (relation) {
    case LN_JINJA_REL_EQ: return ln_jinja_equal(run, left, right, holds);
    case LN_JINJA_REL_NE:
        status = ln_jinja_equal(run, left, right, holds);
        *holds = !*holds;
        return status;
    case LN_JINJA_REL_IN: return ln_jinja_contains(run, right, left, holds);
    case LN_JINJA_REL_NOT_IN:
        status = ln_jinja_contains(run, right, left, holds);
        *holds = !*holds;
        return status;
    case LN_JINJA_REL_LT: return ln_jinja_compare(run, LN_JINJA_LT, left, right, holds);
    case LN_JINJA_REL_LE: return ln_jinja_compare(run, LN_JINJA_LE, left, right, holds);
    case LN_JINJA_REL_GT: return ln_jinja_compare(run, LN_JINJA_GT, left, right, holds);
    default: return ln_jinja_compare(run, LN_JINJA_GE, left, right, holds);
    }
}

static ln_status eval_compare(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                              ln_jinja_value *out) {
    const ln_jinja_nodes *operands = &node->as.compare.operands;
    ln_jinja_value left, right;
    bool holds = true;
    LN_TRY(ln_jinja_eval(run, scope, operands->items[0], &left));
    for (uint32_t i = 1; holds && i < operands->count; i++) {
        LN_TRY(ln_jinja_eval(run, scope, operands->items[i], &right));
        LN_TRY(relate(run, node->as.compare.relations[i - 1], left, right, &holds));
        left = right;
    }
    *out = ln_jinja_bool(holds);
    return LINNET_OK;
}

static ln_status eval_concat(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                             ln_jinja_value *out) {
    const ln_jinja_nodes *parts = &node->as.list;
    ln_jinja_value value;
    ln_jinja_string *text;
    LN_TRY(ln_jinja_eval(run, scope, parts->items[0], &value));
    LN_TRY(ln_jinja_str(run, value, &text));
    *out = ln_jinja_of_string(text);
    for (uint32_t i = 1; i < parts->count; i++) {
        LN_TRY(ln_jinja_eval(run, scope, parts->items[i], &value));
        LN_TRY(ln_jinja_str(run, value, &text));
        LN_TRY(ln_jinja_string_concat(run, out->as.string, text, out));
    }
    out->as.string->markup = false; /* a fresh string: there are at least two parts */
    return LINNET_OK;
}

static ln_status eval_list(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                           ln_jinja_value *out) {
    const ln_jinja_nodes *items = &node->as.list;
    ln_jinja_value item;
    LN_TRY(ln_jinja_list_new(run, node->kind == LN_JINJA_NODE_LIST ? LN_JINJA_LIST : LN_JINJA_TUPLE,
                             items->count, out));
    for (uint32_t i = 0; i < items->count; i++) {
        LN_TRY(ln_jinja_eval(run, scope, items->items[i], &item));
        LN_TRY(ln_jinja_list_push(run, *out, item));
    }
    return LINNET_OK;
}

static ln_status eval_dict(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                           ln_jinja_value *out) {
    const ln_jinja_nodes *items = &node->as.list;
    ln_jinja_value key, item;
    LN_TRY(ln_jinja_dict_new(run, out));
    for (uint32_t i = 0; i + 1 < items->count; i += 2) {
        LN_TRY(ln_jinja_eval(run, scope, items->items[i], &key));
        LN_TRY(ln_jinja_eval(run, scope, items->items[i + 1], &item));
        LN_TRY(ln_jinja_dict_set(run, out->as.dict, key, item));
    }
    return LINNET_OK;
}

static ln_status eval_slice(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                            ln_jinja_value *out) {
    const ln_jinja_node *nodes[3] = {node->as.slice.start, node->as.slice.stop,
                                     node->as.slice.step};
    ln_jinja_value object, bounds[3] = {{0}};
    LN_TRY(ln_jinja_eval(run, scope, node->as.slice.object, &object));
    for (int i = 0; i < 3; i++)
        if (nodes[i] != NULL)
            LN_TRY(ln_jinja_eval(run, scope, nodes[i], &bounds[i]));
    return ln_jinja_get_slice(run, object, bounds, out);
}

static ln_status eval_condition(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                                ln_jinja_value *out) {
    ln_jinja_value test;
    LN_TRY(ln_jinja_eval(run, scope, node->as.condition.test, &test));
    if (ln_jinja_truthy(test))
        return ln_jinja_eval(run, scope, node->as.condition.then, out);
    if (node->as.condition.otherwise != NULL)
        return ln_jinja_eval(run, scope, node->as.condition.otherwise, out);
    char hint[128];
    ln_jinja_value text;
    int n = snprintf(hint, sizeof hint,
                     "the inline if-expression on line %u evaluated to false and no else section "
                     "was defined.",
                     node->line);
    LN_TRY(ln_jinja_string_new(run, hint, (size_t)n + 1, true, &text)); /* with its NUL */
    return ln_jinja_undefined_hint(run, ln_jinja_bytes(text.as.string), out);
}

static ln_status eval_binary(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                             ln_jinja_value *out) {
    ln_jinja_value left, right;
    LN_TRY(ln_jinja_eval(run, scope, node->as.binary.left, &left));
    if (node->kind == LN_JINJA_NODE_AND || node->kind == LN_JINJA_NODE_OR) {
        *out = left;
        if (ln_jinja_truthy(left) == (node->kind == LN_JINJA_NODE_OR))
            return LINNET_OK;
        return ln_jinja_eval(run, scope, node->as.binary.right, out);
    }
    LN_TRY(ln_jinja_eval(run, scope, node->as.binary.right, &right));
    run->line = node->line;
    return ln_jinja_binary(run, node->as.binary.op, left, right, out);
}

static ln_status eval_unary(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                            ln_jinja_value *out) {
    ln_jinja_value operand;
    LN_TRY(ln_jinja_eval(run, scope, node->as.binary.left, &operand));
    if (node->kind == LN_JINJA_NODE_NOT) {
        *out = ln_jinja_bool(!ln_jinja_truthy(operand));
        return LINNET_OK;
    }
    if (node->as.binary.op == LN_JINJA_SUB)
        return ln_jinja_negate(run, operand, out);
    if (operand.kind == LN_JINJA_UNDEFINED)
        return ln_jinja_raise_undefined(run, operand);
    if (operand.kind != LN_JINJA_BOOL && operand.kind != LN_JINJA_INT &&
        operand.kind != LN_JINJA_FLOAT)
        return ln_jinja_raise(run, "TypeError", "bad operand type for unary +: '%s'",
                              ln_jinja_type_name(operand));
    *out = operand.kind == LN_JINJA_BOOL ? ln_jinja_int(operand.as.boolean) : operand;
    return LINNET_OK;
}

static ln_status eval_access(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                             ln_jinja_value *out) {
    ln_jinja_value object, index;
    if (node->kind == LN_JINJA_NODE_ATTRIBUTE) {
        LN_TRY(ln_jinja_eval(run, scope, node->as.attribute.object, &object));
        run->line = node->line;
        return ln_jinja_get_attribute(run, object, node->as.attribute.name, out);
    }
    LN_TRY(ln_jinja_eval(run, scope, node->as.item.object, &object));
    LN_TRY(ln_jinja_eval(run, scope, node->as.item.index, &index));
    run->line = node->line;
    return ln_jinja_get_item(run, object, index, out);
}

static ln_status eval_apply(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                            ln_jinja_value *out) {
    ln_jinja_value operand;
    LN_TRY(ln_jinja_eval(run, scope, node->as.apply.operand, &operand));
    return apply(run, scope, node, operand, out);
}

static ln_status eval_any(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                          ln_jinja_value *out) {
    switch (node->kind) {
    case LN_JINJA_NODE_CONST: *out = node->as.constant; return LINNET_OK;
    case LN_JINJA_NODE_NAME: return lookup(run, scope, node->as.symbol, out);
    case LN_JINJA_NODE_ATTRIBUTE:
    case LN_JINJA_NODE_ITEM: return eval_access(run, scope, node, out);
    case LN_JINJA_NODE_SLICE: return eval_slice(run, scope, node, out);
    case LN_JINJA_NODE_LIST:
    case LN_JINJA_NODE_TUPLE: return eval_list(run, scope, node, out);
    case LN_JINJA_NODE_DICT: return eval_dict(run, scope, node, out);
    case LN_JINJA_NODE_CONCAT: return eval_concat(run, scope, node, out);
    case LN_JINJA_NODE_UNARY:
    case LN_JINJA_NODE_NOT: return eval_unary(run, scope, node, out);
    case LN_JINJA_NODE_BINARY:
    case LN_JINJA_NODE_AND:
    case LN_JINJA_NODE_OR: return eval_binary(run, scope, node, out);
    case LN_JINJA_NODE_COMPARE: return eval_compare(run, scope, node, out);
    case LN_JINJA_NODE_CONDITION: return eval_condition(run, scope, node, out);
    case LN_JINJA_NODE_CALL: return eval_call(run, scope, node, out);
    case LN_JINJA_NODE_FILTER:
    case LN_JINJA_NODE_TEST: return eval_apply(run, scope, node, out);
    default: LN_BUG_ON(true); return LINNET_OK;
    }
}

ln_status ln_jinja_eval(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                        ln_jinja_value *out) {
    ln_jinja_value value;
    LN_TRY(ln_jinja_enter(run));
    LN_TRY(eval_any(run, scope, node, &value));
    ln_jinja_leave(run);
    *out = value;
    return LINNET_OK;
}
