/* Statements and macros. */
#include "text/jinja/run.h"

static ln_status exec_node(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node);

ln_status ln_jinja_exec(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_nodes *body) {
    for (uint32_t i = 0; i < body->count && run->flow == LN_JINJA_FLOW_NEXT; i++)
        LN_TRY(exec_node(run, scope, body->items[i]));
    return LINNET_OK;
}

/* The body in a scope of its own, its output as a string. */
static ln_status capture(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_nodes *body,
                         ln_jinja_value *out) {
    ln_jinja_builder builder, *outer = run->out;
    LN_TRY(ln_jinja_builder_init(run, &builder));
    run->out = &builder;
    LN_TRY(ln_jinja_exec(run, scope, body));
    run->out = outer;
    return ln_jinja_finish(&builder, out);
}

static ln_status print(ln_jinja_run *run, ln_jinja_value value) {
    LN_TRY(ln_jinja_put_str(run->out, value));
    if (run->out->buffer->used > LN_JINJA_MAX_OUTPUT_BYTES)
        return ln_jinja_raise(run, "OutputLimit", "more than %zu bytes of output",
                              LN_JINJA_MAX_OUTPUT_BYTES);
    return LINNET_OK;
}

/* ---- loops ------------------------------------------------------------------------------ */

/* The items of a loop that pass its `if`, tested as they are asked for. */
typedef struct filtered {
    const ln_jinja_node *node;
    ln_jinja_scope *scope; /* of the test: the target and what is around the loop */
    ln_jinja_iter iter;
} filtered;

static ln_status next_filtered(ln_jinja_run *run, ln_jinja_generator *generator,
                               ln_jinja_value *out, bool *done) {
    filtered *state = generator->state;
    for (;;) {
        ln_jinja_value item, test;
        LN_TRY(ln_jinja_iter_next(run, &state->iter, &item, done));
        if (*done)
            return LINNET_OK;
        state->scope->n_bindings = 0;
        LN_TRY(ln_jinja_assign(run, state->scope, state->node->as.loop.target, item));
        LN_TRY(ln_jinja_eval(run, state->scope, state->node->as.loop.test, &test));
        if (ln_jinja_truthy(test)) {
            *out = item;
            return LINNET_OK;
        }
    }
}

static ln_status filter_items(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                              ln_jinja_value *iterable) {
    filtered *state;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *state, &state));
    state->node = node;
    LN_TRY(ln_jinja_scope_new(run, scope, &state->scope));
    LN_TRY(ln_jinja_iter_init(run, &state->iter, *iterable));
    return ln_jinja_generator_new(run, next_filtered, state, "generator", iterable);
}

static ln_status loop_next(ln_jinja_run *run, ln_jinja_loop *loop, bool *done) {
    LN_TRY(ln_jinja_loop_peek(run, loop));
    *done = loop->after.kind == LN_JINJA_MISSING;
    if (*done)
        return LINNET_OK;
    loop->index0++;
    loop->before = loop->current;
    loop->current = loop->after;
    loop->after.kind = LN_JINJA_MISSING;
    return LINNET_OK;
}

/* One round. *completed is false when break or continue cut it short. */
static ln_status loop_round(ln_jinja_run *run, ln_jinja_scope *scope, ln_jinja_loop *loop,
                            bool *completed, bool *broken) {
    const ln_jinja_node *node = loop->node;
    LN_TRY(ln_jinja_assign(run, scope, node->as.loop.target, loop->current));
    LN_TRY(ln_jinja_scope_set(run, scope, run->program->symbol_loop,
                              (ln_jinja_value){.kind = LN_JINJA_LOOP, .as.loop = loop}));
    LN_TRY(ln_jinja_exec(run, scope, &node->as.loop.body));
    *completed = run->flow == LN_JINJA_FLOW_NEXT;
    *broken = run->flow == LN_JINJA_FLOW_BREAK;
    run->flow = LN_JINJA_FLOW_NEXT;
    return LINNET_OK;
}

static ln_status run_loop(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                          ln_jinja_value iterable, int64_t depth0) {
    ln_jinja_loop *loop;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *loop, &loop));
    if (node->as.loop.test != NULL)
        LN_TRY(filter_items(run, scope, node, &iterable));
    *loop = (ln_jinja_loop){.node = node,
                            .scope = scope,
                            .iterable = iterable,
                            .index0 = -1,
                            .depth0 = depth0,
                            .length = -1};
    LN_TRY(ln_jinja_iter_init(run, &loop->iter, iterable));
    ln_jinja_scope *inner = NULL;
    bool otherwise = true, broken = false;
    while (!broken) {
        bool done, completed;
        LN_TRY(loop_next(run, loop, &done));
        if (done)
            break;
        if (inner == NULL || inner->captured)
            LN_TRY(ln_jinja_scope_new(run, scope, &inner));
        inner->n_bindings = 0;
        LN_TRY(loop_round(run, inner, loop, &completed, &broken));
        LN_TRY(ln_jinja_spend(run, 2));
        otherwise = otherwise && !completed; /* as Jinja has it: a loop that only continues */
    }
    if (!otherwise || node->as.loop.otherwise.count == 0)
        return LINNET_OK;
    LN_TRY(ln_jinja_scope_new(run, scope, &inner));
    return ln_jinja_exec(run, inner, &node->as.loop.otherwise);
}

static ln_status exec_for(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node) {
    ln_jinja_value iterable;
    LN_TRY(ln_jinja_eval(run, scope, node->as.loop.iterable, &iterable));
    return run_loop(run, scope, node, iterable, 0);
}

ln_status ln_jinja_call_loop(ln_jinja_run *run, const ln_jinja_loop *loop,
                             const ln_jinja_args *args, ln_jinja_value *out) {
    if (args->n_positional != 1 || args->n_named != 0)
        return ln_jinja_raise(run, "TypeError", "loop() takes exactly one argument");
    if (!loop->node->as.loop.recursive)
        return ln_jinja_raise(
            run, "TypeError",
            "The loop must have the 'recursive' marker to be called recursively.");
    ln_jinja_builder builder, *outer = run->out;
    LN_TRY(ln_jinja_enter(run));
    LN_TRY(ln_jinja_builder_init(run, &builder));
    run->out = &builder;
    LN_TRY(run_loop(run, loop->scope, loop->node, args->positional[0], loop->depth0 + 1));
    run->out = outer;
    ln_jinja_leave(run);
    return ln_jinja_finish(&builder, out);
}

/* ---- macros ----------------------------------------------------------------------------- */

static ln_status new_macro(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                           const ln_jinja_string *name, ln_jinja_value *out) {
    out->kind = LN_JINJA_MACRO;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *out->as.macro, &out->as.macro));
    *out->as.macro =
        (ln_jinja_macro){.signature = &node->as.macro.signature, .name = name, .scope = scope};
    for (; scope != NULL && !scope->captured; scope = scope->parent)
        scope->captured = true;
    return LINNET_OK;
}

/* "'name'", or "None" for a call block, in messages. */
static const char *macro_name(ln_jinja_run *run, const ln_jinja_macro *macro) {
    ln_jinja_value name = ln_jinja_none();
    if (macro->name != NULL &&
        ln_jinja_string_part(run, macro->name, 0, macro->name->n_bytes, &name) != LINNET_OK)
        return "?";
    return ln_jinja_quote(run, name);
}

/* Takes a keyword argument out of the call: its value, or MISSING. */
static ln_jinja_value take_named(ln_jinja_args *args, const ln_jinja_string *name) {
    for (size_t i = 0; i < args->n_named; i++)
        if (ln_jinja_string_equal(args->named[i].name, name)) {
            ln_jinja_value value = args->named[i].value;
            for (; i + 1 < args->n_named; i++)
                args->named[i] = args->named[i + 1];
            args->n_named--;
            return value;
        }
    return (ln_jinja_value){.kind = LN_JINJA_MISSING};
}

/* caller, kwargs and varargs, for a body that mentions them. */
static ln_status bind_special(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_macro *macro,
                              ln_jinja_args *args, bool has_caller, bool has_kwargs,
                              bool has_varargs) {
    const ln_jinja_program *program = run->program;
    const ln_jinja_signature *signature = macro->signature;
    ln_jinja_value value;
    if (signature->uses_caller && !has_caller) {
        value = take_named(args, program->symbols[program->symbol_caller]);
        if (value.kind == LN_JINJA_MISSING || value.kind == LN_JINJA_NONE)
            LN_TRY(ln_jinja_undefined_hint(run, "No caller defined", &value));
        LN_TRY(ln_jinja_scope_set(run, scope, program->symbol_caller, value));
    }
    if (signature->uses_kwargs && !has_kwargs) {
        LN_TRY(ln_jinja_dict_new(run, &value));
        for (size_t i = 0; i < args->n_named; i++) {
            ln_jinja_value name;
            LN_TRY(ln_jinja_string_part(run, args->named[i].name, 0, args->named[i].name->n_bytes,
                                        &name));
            LN_TRY(ln_jinja_dict_set(run, value.as.dict, name, args->named[i].value));
        }
        LN_TRY(ln_jinja_scope_set(run, scope, program->symbol_kwargs, value));
    } else if (args->n_named > 0) {
        const ln_jinja_string *name = args->named[0].name;
        for (size_t i = 0; i < args->n_named; i++)
            if (ln_jinja_string_is(args->named[i].name, "caller"))
                return ln_jinja_raise(run, "TypeError",
                                      "macro %s was invoked with two values for the special caller "
                                      "argument. This is most likely a bug.",
                                      macro_name(run, macro));
        return ln_jinja_raise(
            run, "TypeError", "macro %s takes no keyword argument '%.*s'", macro_name(run, macro),
            (int)(name->n_bytes < 100 ? name->n_bytes : 100), ln_jinja_bytes(name));
    }
    size_t n = signature->n_parameters;
    if (signature->uses_varargs && !has_varargs) {
        LN_TRY(ln_jinja_list_new(run, LN_JINJA_TUPLE, 0, &value));
        for (size_t i = n; i < args->n_positional; i++)
            LN_TRY(ln_jinja_list_push(run, value, args->positional[i]));
        LN_TRY(ln_jinja_scope_set(run, scope, program->symbol_varargs, value));
    } else if (args->n_positional > n) {
        return ln_jinja_raise(run, "TypeError", "macro %s takes not more than %zu argument(s)",
                              macro_name(run, macro), n);
    }
    return LINNET_OK;
}

/* A parameter that was not given: its default, seen from inside, or undefined. */
static ln_status bind_default(ln_jinja_run *run, ln_jinja_scope *scope,
                              const ln_jinja_signature *signature, uint32_t index) {
    uint32_t symbol = signature->parameters[index];
    uint32_t first = signature->n_parameters - signature->defaults.count;
    ln_jinja_value value;
    if (index >= first) {
        LN_TRY(ln_jinja_eval(run, scope, signature->defaults.items[index - first], &value));
    } else {
        ln_jinja_builder hint;
        LN_TRY(ln_jinja_builder_init(run, &hint));
        LN_TRY(ln_jinja_puts(&hint, "parameter ", true));
        LN_TRY(ln_jinja_put_repr(&hint, ln_jinja_of_string(run->program->symbols[symbol])));
        LN_TRY(ln_jinja_put(&hint, " was not provided", sizeof " was not provided", true));
        LN_TRY(ln_jinja_undefined_hint(run, hint.buffer->data, &value));
    }
    return ln_jinja_scope_set(run, scope, symbol, value);
}

static ln_status bind_parameters(ln_jinja_run *run, ln_jinja_scope *scope,
                                 const ln_jinja_macro *macro, ln_jinja_args *args) {
    const ln_jinja_signature *signature = macro->signature;
    const ln_jinja_program *program = run->program;
    bool has_caller = false, has_kwargs = false, has_varargs = false;
    bool *given;
    LN_TRY(ln_jinja_alloc(run, signature->n_parameters, sizeof *given, &given));
    for (uint32_t i = 0; i < signature->n_parameters; i++) {
        uint32_t symbol = signature->parameters[i];
        has_caller |= symbol == program->symbol_caller;
        has_kwargs |= symbol == program->symbol_kwargs;
        has_varargs |= symbol == program->symbol_varargs;
        ln_jinja_value value = i < args->n_positional ? args->positional[i]
                                                      : take_named(args, program->symbols[symbol]);
        given[i] = value.kind != LN_JINJA_MISSING;
        if (given[i])
            LN_TRY(ln_jinja_scope_set(run, scope, symbol, value));
    }
    LN_TRY(bind_special(run, scope, macro, args, has_caller, has_kwargs, has_varargs));
    for (uint32_t i = 0; i < signature->n_parameters; i++)
        if (!given[i])
            LN_TRY(bind_default(run, scope, signature, i));
    return LINNET_OK;
}

ln_status ln_jinja_call_macro(ln_jinja_run *run, const ln_jinja_macro *macro,
                              const ln_jinja_args *args, ln_jinja_value *out) {
    ln_jinja_scope *scope;
    ln_jinja_args own = *args;
    uint32_t line = run->line;
    LN_TRY(ln_jinja_enter(run));
    LN_TRY(ln_jinja_scope_new(run, macro->scope, &scope));
    LN_TRY(bind_parameters(run, scope, macro, &own));
    LN_TRY(capture(run, scope, &macro->signature->body, out));
    ln_jinja_leave(run);
    run->line = line;
    return LINNET_OK;
}

static ln_status exec_macro(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node) {
    ln_jinja_value macro;
    uint32_t symbol = node->as.macro.symbol;
    LN_TRY(new_macro(run, scope, node, run->program->symbols[symbol], &macro));
    return ln_jinja_scope_set(run, scope, symbol, macro);
}

static ln_status exec_call_block(ln_jinja_run *run, ln_jinja_scope *scope,
                                 const ln_jinja_node *node) {
    const ln_jinja_node *call = node->as.macro.call;
    ln_jinja_value callee, caller, result;
    ln_jinja_args args;
    LN_TRY(ln_jinja_eval(run, scope, call->as.call.callee, &callee));
    LN_TRY(ln_jinja_eval_args(run, scope, &call->as.call.args, &args));
    LN_TRY(new_macro(run, scope, node, NULL, &caller));
    ln_jinja_named *named;
    LN_TRY(ln_jinja_alloc(run, args.n_named + 1, sizeof *named, &named));
    for (size_t i = 0; i < args.n_named; i++)
        named[i] = args.named[i];
    named[args.n_named++] = (ln_jinja_named){
        .name = run->program->symbols[run->program->symbol_caller], .value = caller};
    args.named = named;
    LN_TRY(ln_jinja_call(run, callee, &args, &result));
    return print(run, result);
}

/* ---- the other statements --------------------------------------------------------------- */

static ln_status exec_if(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node) {
    for (;;) {
        ln_jinja_value test;
        LN_TRY(ln_jinja_eval(run, scope, node->as.branch.test, &test));
        if (ln_jinja_truthy(test))
            return ln_jinja_exec(run, scope, &node->as.branch.body);
        const ln_jinja_nodes *otherwise = &node->as.branch.otherwise;
        if (otherwise->count != 1 || otherwise->items[0]->kind != LN_JINJA_NODE_IF)
            return ln_jinja_exec(run, scope, otherwise);
        node = otherwise->items[0]; /* an elif */
        LN_TRY(ln_jinja_spend(run, 1));
        run->line = node->line;
    }
}

static ln_status exec_block(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node) {
    ln_jinja_scope *inner;
    ln_jinja_value text;
    LN_TRY(ln_jinja_scope_new(run, scope, &inner));
    LN_TRY(capture(run, inner, &node->as.block.body, &text));
    if (run->flow != LN_JINJA_FLOW_NEXT)
        return LINNET_OK;
    if (node->as.block.filter != NULL)
        LN_TRY(ln_jinja_eval_filter(run, inner, node->as.block.filter, text, &text));
    if (node->kind == LN_JINJA_NODE_SET_BLOCK)
        return ln_jinja_assign(run, scope, node->as.block.target, text);
    return print(run, text);
}

static ln_status exec_with(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node) {
    ln_jinja_scope *inner;
    LN_TRY(ln_jinja_scope_new(run, scope, &inner));
    for (uint32_t i = 0; i < node->as.with.targets.count; i++) {
        ln_jinja_value value;
        LN_TRY(ln_jinja_eval(run, scope, node->as.with.values.items[i], &value));
        LN_TRY(ln_jinja_assign(run, inner, node->as.with.targets.items[i], value));
    }
    return ln_jinja_exec(run, inner, &node->as.with.body);
}

static ln_status exec_any(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node) {
    ln_jinja_value value;
    ln_jinja_scope *inner;
    switch (node->kind) {
    case LN_JINJA_NODE_TEXT: return print(run, node->as.constant);
    case LN_JINJA_NODE_PRINT:
        LN_TRY(ln_jinja_eval(run, scope, node->as.print, &value));
        return print(run, value);
    case LN_JINJA_NODE_IF: return exec_if(run, scope, node);
    case LN_JINJA_NODE_FOR: return exec_for(run, scope, node);
    case LN_JINJA_NODE_SET:
        LN_TRY(ln_jinja_eval(run, scope, node->as.set.value, &value));
        return ln_jinja_assign(run, scope, node->as.set.target, value);
    case LN_JINJA_NODE_SET_BLOCK:
    case LN_JINJA_NODE_FILTER_BLOCK: return exec_block(run, scope, node);
    case LN_JINJA_NODE_WITH: return exec_with(run, scope, node);
    case LN_JINJA_NODE_MACRO: return exec_macro(run, scope, node);
    case LN_JINJA_NODE_CALL_BLOCK: return exec_call_block(run, scope, node);
    case LN_JINJA_NODE_SCOPE:
        LN_TRY(ln_jinja_scope_new(run, scope, &inner));
        return ln_jinja_exec(run, inner, &node->as.scope);
    case LN_JINJA_NODE_BREAK: run->flow = LN_JINJA_FLOW_BREAK; return LINNET_OK;
    case LN_JINJA_NODE_CONTINUE: run->flow = LN_JINJA_FLOW_CONTINUE; return LINNET_OK;
    default: LN_BUG_ON(true); return LINNET_OK;
    }
}

static ln_status exec_node(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node) {
    LN_TRY(ln_jinja_enter(run));
    run->line = node->line;
    LN_TRY(exec_any(run, scope, node));
    ln_jinja_leave(run);
    return LINNET_OK;
}
