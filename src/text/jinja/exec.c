/* Statements and macros. */
#include "text/jinja/run.h"

static ln_status exec_node(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node);

ln_status ln_tpl_exec(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_nodes *body) {
    for (uint32_t i = 0; i < body->count && run->flow == LN_TPL_FLOW_NEXT; i++)
        LN_TRY(exec_node(run, scope, body->items[i]));
    return LINNET_OK;
}

/* The body in a scope of its own, its output as a string. */
static ln_status capture(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_nodes *body,
                         ln_tpl_value *out) {
    ln_tpl_builder builder, *outer = run->out;
    LN_TRY(ln_tpl_builder_init(run, &builder));
    run->out = &builder;
    LN_TRY(ln_tpl_exec(run, scope, body));
    run->out = outer;
    return ln_tpl_finish(&builder, out);
}

static ln_status print(ln_tpl_run *run, ln_tpl_value value) {
    LN_TRY(ln_tpl_put_str(run->out, value));
    if (run->out->buffer->used > LN_TPL_MAX_OUTPUT_BYTES)
        return ln_tpl_raise(run, "OutputLimit", "more than %zu bytes of output",
                            LN_TPL_MAX_OUTPUT_BYTES);
    return LINNET_OK;
}

/* ---- loops ------------------------------------------------------------------------------ */

/* The items of a loop that pass its `if`, tested as they are asked for. */
typedef struct filtered {
    const ln_tpl_node *node;
    ln_tpl_scope *scope; /* of the test: the target and what is around the loop */
    ln_tpl_iter iter;
} filtered;

static ln_status next_filtered(ln_tpl_run *run, ln_tpl_generator *generator, ln_tpl_value *out,
                               bool *done) {
    filtered *state = generator->state;
    for (;;) {
        ln_tpl_value item, test;
        LN_TRY(ln_tpl_iter_next(run, &state->iter, &item, done));
        if (*done)
            return LINNET_OK;
        state->scope->n_bindings = 0;
        LN_TRY(ln_tpl_assign(run, state->scope, state->node->as.loop.target, item));
        LN_TRY(ln_tpl_eval(run, state->scope, state->node->as.loop.test, &test));
        if (ln_tpl_truthy(test)) {
            *out = item;
            return LINNET_OK;
        }
    }
}

static ln_status filter_items(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node,
                              ln_tpl_value *iterable) {
    filtered *state;
    LN_TRY(ln_tpl_alloc(run, 1, sizeof *state, &state));
    state->node = node;
    LN_TRY(ln_tpl_scope_new(run, scope, &state->scope));
    LN_TRY(ln_tpl_iter_init(run, &state->iter, *iterable));
    return ln_tpl_generator_new(run, next_filtered, state, "generator", iterable);
}

static ln_status loop_next(ln_tpl_run *run, ln_tpl_loop *loop, bool *done) {
    LN_TRY(ln_tpl_loop_peek(run, loop));
    *done = loop->after.kind == LN_TPL_MISSING;
    if (*done)
        return LINNET_OK;
    loop->index0++;
    loop->before = loop->current;
    loop->current = loop->after;
    loop->after.kind = LN_TPL_MISSING;
    return LINNET_OK;
}

/* One round. *completed is false when break or continue cut it short. */
static ln_status loop_round(ln_tpl_run *run, ln_tpl_scope *scope, ln_tpl_loop *loop,
                            bool *completed, bool *broken) {
    const ln_tpl_node *node = loop->node;
    LN_TRY(ln_tpl_assign(run, scope, node->as.loop.target, loop->current));
    LN_TRY(ln_tpl_scope_set(run, scope, run->program->symbol_loop,
                            (ln_tpl_value){.kind = LN_TPL_LOOP, .as.loop = loop}));
    LN_TRY(ln_tpl_exec(run, scope, &node->as.loop.body));
    *completed = run->flow == LN_TPL_FLOW_NEXT;
    *broken = run->flow == LN_TPL_FLOW_BREAK;
    run->flow = LN_TPL_FLOW_NEXT;
    return LINNET_OK;
}

static ln_status run_loop(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node,
                          ln_tpl_value iterable, int64_t depth0) {
    ln_tpl_loop *loop;
    LN_TRY(ln_tpl_alloc(run, 1, sizeof *loop, &loop));
    if (node->as.loop.test != NULL)
        LN_TRY(filter_items(run, scope, node, &iterable));
    *loop = (ln_tpl_loop){.node = node,
                          .scope = scope,
                          .iterable = iterable,
                          .index0 = -1,
                          .depth0 = depth0,
                          .length = -1};
    LN_TRY(ln_tpl_iter_init(run, &loop->iter, iterable));
    ln_tpl_scope *inner = NULL;
    bool otherwise = true, broken = false;
    while (!broken) {
        bool done, completed;
        LN_TRY(loop_next(run, loop, &done));
        if (done)
            break;
        if (inner == NULL || inner->captured)
            LN_TRY(ln_tpl_scope_new(run, scope, &inner));
        inner->n_bindings = 0;
        LN_TRY(loop_round(run, inner, loop, &completed, &broken));
        LN_TRY(ln_tpl_spend(run, 2));
        otherwise = otherwise && !completed; /* as Jinja has it: a loop that only continues */
    }
    if (!otherwise || node->as.loop.otherwise.count == 0)
        return LINNET_OK;
    LN_TRY(ln_tpl_scope_new(run, scope, &inner));
    return ln_tpl_exec(run, inner, &node->as.loop.otherwise);
}

static ln_status exec_for(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    ln_tpl_value iterable;
    LN_TRY(ln_tpl_eval(run, scope, node->as.loop.iterable, &iterable));
    return run_loop(run, scope, node, iterable, 0);
}

ln_status ln_tpl_call_loop(ln_tpl_run *run, const ln_tpl_loop *loop, const ln_tpl_args *args,
                           ln_tpl_value *out) {
    if (args->n_positional != 1 || args->n_named != 0)
        return ln_tpl_raise(run, "TypeError", "loop() takes exactly one argument");
    if (!loop->node->as.loop.recursive)
        return ln_tpl_raise(run, "TypeError",
                            "The loop must have the 'recursive' marker to be called recursively.");
    ln_tpl_builder builder, *outer = run->out;
    LN_TRY(ln_tpl_enter(run));
    LN_TRY(ln_tpl_builder_init(run, &builder));
    run->out = &builder;
    LN_TRY(run_loop(run, loop->scope, loop->node, args->positional[0], loop->depth0 + 1));
    run->out = outer;
    ln_tpl_leave(run);
    return ln_tpl_finish(&builder, out);
}

/* ---- macros ----------------------------------------------------------------------------- */

static ln_status new_macro(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node,
                           const ln_tpl_string *name, ln_tpl_value *out) {
    out->kind = LN_TPL_MACRO;
    LN_TRY(ln_tpl_alloc(run, 1, sizeof *out->as.macro, &out->as.macro));
    *out->as.macro =
        (ln_tpl_macro){.signature = &node->as.macro.signature, .name = name, .scope = scope};
    for (; scope != NULL && !scope->captured; scope = scope->parent)
        scope->captured = true;
    return LINNET_OK;
}

/* "'name'", or "None" for a call block, in messages. */
static const char *macro_name(ln_tpl_run *run, const ln_tpl_macro *macro) {
    ln_tpl_value name = ln_tpl_none();
    if (macro->name != NULL &&
        ln_tpl_string_part(run, macro->name, 0, macro->name->n_bytes, &name) != LINNET_OK)
        return "?";
    return ln_tpl_quote(run, name);
}

/* Takes a keyword argument out of the call: its value, or MISSING. */
static ln_tpl_value take_named(ln_tpl_args *args, const ln_tpl_string *name) {
    for (size_t i = 0; i < args->n_named; i++)
        if (ln_tpl_string_equal(args->named[i].name, name)) {
            ln_tpl_value value = args->named[i].value;
            for (; i + 1 < args->n_named; i++)
                args->named[i] = args->named[i + 1];
            args->n_named--;
            return value;
        }
    return (ln_tpl_value){.kind = LN_TPL_MISSING};
}

/* caller, kwargs and varargs, for a body that mentions them. */
static ln_status bind_special(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_macro *macro,
                              ln_tpl_args *args, bool has_caller, bool has_kwargs,
                              bool has_varargs) {
    const ln_tpl_program *program = run->program;
    const ln_tpl_signature *signature = macro->signature;
    ln_tpl_value value;
    if (signature->uses_caller && !has_caller) {
        value = take_named(args, program->symbols[program->symbol_caller]);
        if (value.kind == LN_TPL_MISSING || value.kind == LN_TPL_NONE)
            LN_TRY(ln_tpl_undefined_hint(run, "No caller defined", &value));
        LN_TRY(ln_tpl_scope_set(run, scope, program->symbol_caller, value));
    }
    if (signature->uses_kwargs && !has_kwargs) {
        LN_TRY(ln_tpl_dict_new(run, &value));
        for (size_t i = 0; i < args->n_named; i++) {
            ln_tpl_value name;
            LN_TRY(ln_tpl_string_part(run, args->named[i].name, 0, args->named[i].name->n_bytes,
                                      &name));
            LN_TRY(ln_tpl_dict_set(run, value.as.dict, name, args->named[i].value));
        }
        LN_TRY(ln_tpl_scope_set(run, scope, program->symbol_kwargs, value));
    } else if (args->n_named > 0) {
        const ln_tpl_string *name = args->named[0].name;
        for (size_t i = 0; i < args->n_named; i++)
            if (ln_tpl_string_is(args->named[i].name, "caller"))
                return ln_tpl_raise(run, "TypeError",
                                    "macro %s was invoked with two values for the special caller "
                                    "argument. This is most likely a bug.",
                                    macro_name(run, macro));
        return ln_tpl_raise(run, "TypeError", "macro %s takes no keyword argument '%.*s'",
                            macro_name(run, macro),
                            (int)(name->n_bytes < 100 ? name->n_bytes : 100), ln_tpl_bytes(name));
    }
    size_t n = signature->n_parameters;
    if (signature->uses_varargs && !has_varargs) {
        LN_TRY(ln_tpl_list_new(run, LN_TPL_TUPLE, 0, &value));
        for (size_t i = n; i < args->n_positional; i++)
            LN_TRY(ln_tpl_list_push(run, value, args->positional[i]));
        LN_TRY(ln_tpl_scope_set(run, scope, program->symbol_varargs, value));
    } else if (args->n_positional > n) {
        return ln_tpl_raise(run, "TypeError", "macro %s takes not more than %zu argument(s)",
                            macro_name(run, macro), n);
    }
    return LINNET_OK;
}

/* A parameter that was not given: its default, seen from inside, or undefined. */
static ln_status bind_default(ln_tpl_run *run, ln_tpl_scope *scope,
                              const ln_tpl_signature *signature, uint32_t index) {
    uint32_t symbol = signature->parameters[index];
    uint32_t first = signature->n_parameters - signature->defaults.count;
    ln_tpl_value value;
    if (index >= first) {
        LN_TRY(ln_tpl_eval(run, scope, signature->defaults.items[index - first], &value));
    } else {
        ln_tpl_builder hint;
        LN_TRY(ln_tpl_builder_init(run, &hint));
        LN_TRY(ln_tpl_puts(&hint, "parameter ", true));
        LN_TRY(ln_tpl_put_repr(&hint, ln_tpl_of_string(run->program->symbols[symbol])));
        LN_TRY(ln_tpl_put(&hint, " was not provided", sizeof " was not provided", true));
        LN_TRY(ln_tpl_undefined_hint(run, hint.buffer->data, &value));
    }
    return ln_tpl_scope_set(run, scope, symbol, value);
}

static ln_status bind_parameters(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_macro *macro,
                                 ln_tpl_args *args) {
    const ln_tpl_signature *signature = macro->signature;
    const ln_tpl_program *program = run->program;
    bool has_caller = false, has_kwargs = false, has_varargs = false;
    bool *given;
    LN_TRY(ln_tpl_alloc(run, signature->n_parameters, sizeof *given, &given));
    for (uint32_t i = 0; i < signature->n_parameters; i++) {
        uint32_t symbol = signature->parameters[i];
        has_caller |= symbol == program->symbol_caller;
        has_kwargs |= symbol == program->symbol_kwargs;
        has_varargs |= symbol == program->symbol_varargs;
        ln_tpl_value value = i < args->n_positional ? args->positional[i]
                                                    : take_named(args, program->symbols[symbol]);
        given[i] = value.kind != LN_TPL_MISSING;
        if (given[i])
            LN_TRY(ln_tpl_scope_set(run, scope, symbol, value));
    }
    LN_TRY(bind_special(run, scope, macro, args, has_caller, has_kwargs, has_varargs));
    for (uint32_t i = 0; i < signature->n_parameters; i++)
        if (!given[i])
            LN_TRY(bind_default(run, scope, signature, i));
    return LINNET_OK;
}

ln_status ln_tpl_call_macro(ln_tpl_run *run, const ln_tpl_macro *macro, const ln_tpl_args *args,
                            ln_tpl_value *out) {
    ln_tpl_scope *scope;
    ln_tpl_args own = *args;
    uint32_t line = run->line;
    LN_TRY(ln_tpl_enter(run));
    LN_TRY(ln_tpl_scope_new(run, macro->scope, &scope));
    LN_TRY(bind_parameters(run, scope, macro, &own));
    LN_TRY(capture(run, scope, &macro->signature->body, out));
    ln_tpl_leave(run);
    run->line = line;
    return LINNET_OK;
}

static ln_status exec_macro(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    ln_tpl_value macro;
    uint32_t symbol = node->as.macro.symbol;
    LN_TRY(new_macro(run, scope, node, run->program->symbols[symbol], &macro));
    return ln_tpl_scope_set(run, scope, symbol, macro);
}

static ln_status exec_call_block(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    const ln_tpl_node *call = node->as.macro.call;
    ln_tpl_value callee, caller, result;
    ln_tpl_args args;
    LN_TRY(ln_tpl_eval(run, scope, call->as.call.callee, &callee));
    LN_TRY(ln_tpl_eval_args(run, scope, &call->as.call.args, &args));
    LN_TRY(new_macro(run, scope, node, NULL, &caller));
    ln_tpl_named *named;
    LN_TRY(ln_tpl_alloc(run, args.n_named + 1, sizeof *named, &named));
    for (size_t i = 0; i < args.n_named; i++)
        named[i] = args.named[i];
    named[args.n_named++] =
        (ln_tpl_named){.name = run->program->symbols[run->program->symbol_caller], .value = caller};
    args.named = named;
    LN_TRY(ln_tpl_call(run, callee, &args, &result));
    return print(run, result);
}

/* ---- the other statements --------------------------------------------------------------- */

static ln_status exec_if(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    for (;;) {
        ln_tpl_value test;
        LN_TRY(ln_tpl_eval(run, scope, node->as.branch.test, &test));
        if (ln_tpl_truthy(test))
            return ln_tpl_exec(run, scope, &node->as.branch.body);
        const ln_tpl_nodes *otherwise = &node->as.branch.otherwise;
        if (otherwise->count != 1 || otherwise->items[0]->kind != LN_TPL_NODE_IF)
            return ln_tpl_exec(run, scope, otherwise);
        node = otherwise->items[0]; /* an elif */
        LN_TRY(ln_tpl_spend(run, 1));
        run->line = node->line;
    }
}

static ln_status exec_block(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    ln_tpl_scope *inner;
    ln_tpl_value text;
    LN_TRY(ln_tpl_scope_new(run, scope, &inner));
    LN_TRY(capture(run, inner, &node->as.block.body, &text));
    if (run->flow != LN_TPL_FLOW_NEXT)
        return LINNET_OK;
    if (node->as.block.filter != NULL)
        LN_TRY(ln_tpl_eval_filter(run, inner, node->as.block.filter, text, &text));
    if (node->kind == LN_TPL_NODE_SET_BLOCK)
        return ln_tpl_assign(run, scope, node->as.block.target, text);
    return print(run, text);
}

static ln_status exec_with(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    ln_tpl_scope *inner;
    LN_TRY(ln_tpl_scope_new(run, scope, &inner));
    for (uint32_t i = 0; i < node->as.with.targets.count; i++) {
        ln_tpl_value value;
        LN_TRY(ln_tpl_eval(run, scope, node->as.with.values.items[i], &value));
        LN_TRY(ln_tpl_assign(run, inner, node->as.with.targets.items[i], value));
    }
    return ln_tpl_exec(run, inner, &node->as.with.body);
}

static ln_status exec_any(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    ln_tpl_value value;
    ln_tpl_scope *inner;
    switch (node->kind) {
    case LN_TPL_NODE_TEXT: return print(run, node->as.constant);
    case LN_TPL_NODE_PRINT:
        LN_TRY(ln_tpl_eval(run, scope, node->as.print, &value));
        return print(run, value);
    case LN_TPL_NODE_IF: return exec_if(run, scope, node);
    case LN_TPL_NODE_FOR: return exec_for(run, scope, node);
    case LN_TPL_NODE_SET:
        LN_TRY(ln_tpl_eval(run, scope, node->as.set.value, &value));
        return ln_tpl_assign(run, scope, node->as.set.target, value);
    case LN_TPL_NODE_SET_BLOCK:
    case LN_TPL_NODE_FILTER_BLOCK: return exec_block(run, scope, node);
    case LN_TPL_NODE_WITH: return exec_with(run, scope, node);
    case LN_TPL_NODE_MACRO: return exec_macro(run, scope, node);
    case LN_TPL_NODE_CALL_BLOCK: return exec_call_block(run, scope, node);
    case LN_TPL_NODE_SCOPE:
        LN_TRY(ln_tpl_scope_new(run, scope, &inner));
        return ln_tpl_exec(run, inner, &node->as.scope);
    case LN_TPL_NODE_BREAK: run->flow = LN_TPL_FLOW_BREAK; return LINNET_OK;
    case LN_TPL_NODE_CONTINUE: run->flow = LN_TPL_FLOW_CONTINUE; return LINNET_OK;
    default: LN_BUG_ON(true); return LINNET_OK;
    }
}

static ln_status exec_node(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node) {
    LN_TRY(ln_tpl_enter(run));
    run->line = node->line;
    LN_TRY(exec_any(run, scope, node));
    ln_tpl_leave(run);
    return LINNET_OK;
}
