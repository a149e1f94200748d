#include "convert/convert.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "convert/plan.h"
#include "model/spec_read.h"

enum { QUANTIZATION_VERSION = 2 };

/* The type of the folder's embedding, or F16 where that is no plain number. */
static const ln_mix *natural_mix(const ln_convert_plan *plan) {
    const ln_binding *binding;
    ln_tensor_id id = {.role = LN_ROLE_EMBEDDING};
    const ln_tensor *tensor = ln_family_find(plan->spec->family, plan->checkpoint, id, &binding);
    const ln_mix *mix = tensor != NULL ? ln_mix_find(ln_dtype_name(tensor->dtype)) : NULL;
    bool plain = mix != NULL && ln_dtype_block_elems(mix->base) == 1;
    return plain ? mix : ln_mix_find("F16");
}

static void put_name(const char *path, ln_gguf_writer *writer) {
    size_t n_bytes;
    const char *name = ln_path_model_name(path, &n_bytes);
    ln_gguf_put_string(writer, "general.name", name, n_bytes);
}

static void describe(const ln_convert_plan *plan, ln_mix_model *model) {
    const ln_spec *spec = plan->spec;
    const ln_attention_spec *attention = ln_convert_attention(spec);
    size_t n_kv_heads = attention->n_kv_heads > 0 ? attention->n_kv_heads : 1;
    *model =
        (ln_mix_model){.n_layers = spec->n_layers, .heads_per_kv = attention->n_heads / n_kv_heads};
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].ffn.moe.n_experts > model->n_experts)
            model->n_experts = spec->layers[i].ffn.moe.n_experts;
    strncpy(model->architecture, plan->architecture, sizeof model->architecture - 1);
    for (size_t i = 0; i < plan->n_tensors; i++)
        model->has_output |= strcmp(plan->tensors[i].name, "output.weight") == 0;
}

/* The type in which a tensor's rows lie in the folder, or F32 where they have no one such type. */
static ln_dtype folder_type(const ln_convert_plan *plan, const ln_convert_tensor *tensor) {
    if (tensor->packed != LN_PACKED_NONE && !ln_packed_has_values(tensor->packed))
        return tensor->packed == LN_PACKED_MXFP4 ? LN_DTYPE_MXFP4 : LN_DTYPE_F32;
    ln_dtype type = LN_DTYPE_F32;
    for (size_t i = 0; i < tensor->n_parts; i++) {
        const ln_convert_part *part = &plan->parts[tensor->first_part + i];
        ln_dtype dtype =
            part->values != NULL ? LN_DTYPE_F32 : ln_weight_source_dtype(&part->source);
        bool is_half = dtype == LN_DTYPE_F16 || dtype == LN_DTYPE_BF16;
        if (!is_half || (i > 0 && dtype != type))
            return LN_DTYPE_F32;
        type = dtype;
    }
    return type;
}

static bool has_rule(const ln_mix_choice *choice, const ln_convert_tensor *tensor) {
    for (size_t i = 0; i < choice->n_rules; i++)
        if (ln_keep_rule_matches(&choice->rules[i], tensor->name, tensor->n_dims))
            return true;
    return false;
}

/* The list for the writer, malloc'd. is_natural: nothing of the folder's precision is lost but by a
 * rule. */
static ln_write_tensor *list_tensors(const ln_convert_plan *plan, const ln_mix_choice *choice,
                                     bool is_natural) {
    ln_write_tensor *list = calloc(plan->n_tensors + 1, sizeof *list);
    for (size_t i = 0; i < plan->n_tensors && list != NULL; i++) {
        const ln_convert_tensor *from = &plan->tensors[i];
        list[i] = (ln_write_tensor){.name = from->name, .n_dims = from->n_dims, .source = from};
        memcpy(list[i].dims, from->dims, sizeof from->dims);
        if (from->numbers != NULL) {
            list[i].dtype = LN_DTYPE_I32;
            list[i].raw = (const uint8_t *)from->numbers;
            continue;
        }
        ln_dtype own = folder_type(plan, from);
        list[i].dtype = ln_mix_choose(choice, from->name, from->n_dims, from->dims, own);
        if (from->whole && ln_dtype_block_elems(list[i].dtype) == 1)
            list[i].dtype = LN_DTYPE_F32;
        if (is_natural && list[i].dtype != LN_DTYPE_F32 && !has_rule(choice, from))
            list[i].dtype = own;
    }
    return list;
}

static ln_status write_file(const ln_convert_plan *plan, const char *path, bool with_tokenizer,
                            const ln_quantize_options *options, ln_gguf_writer *writer) {
    const ln_mix *mix = options->mix != NULL ? options->mix : natural_mix(plan);
    /* without --type F16 stands for the folder's types, which list_tensors puts in its place */
    const ln_mix *base = options->mix != NULL ? mix : ln_mix_find("F16");
    ln_mix_choice choice = {base, options->rules, options->n_rules, {{0}, 0, 0, 0, false}};
    describe(plan, &choice.model);
    ln_gguf_put_string(writer, "general.architecture", plan->architecture,
                       strlen(plan->architecture));
    ln_gguf_put_string(writer, "general.type", "model", 5);
    put_name(ln_checkpoint_path(plan->checkpoint), writer);
    LN_TRY(ln_convert_put_keys(plan, writer));
    ln_gguf_put_u32(writer, "general.quantization_version", QUANTIZATION_VERSION);
    ln_gguf_put_u32(writer, "general.file_type", mix->file_type);
    LN_TRY(ln_convert_put_tokenizer(plan, with_tokenizer, writer));
    ln_write_tensor *tensors = list_tensors(plan, &choice, options->mix == NULL);
    if (tensors == NULL)
        return ln_fail_memory(plan->err, "the list of tensors");
    ln_write_job job = {.tensors = tensors,
                        .n_tensors = plan->n_tensors,
                        .n_threads = options->n_threads,
                        .rules = options->rules,
                        .n_rules = options->n_rules,
                        .rows = ln_convert_rows,
                        .progress = options->progress,
                        .user = options->user};
    ln_status status = ln_write_gguf(writer, path, &job, plan->err);
    free(tensors);
    return status;
}

ln_status ln_convert(const ln_checkpoint *checkpoint, const char *path, bool with_tokenizer,
                     const ln_quantize_options *options, ln_error *err) {
    if (ln_checkpoint_get_format(checkpoint) != LN_FORMAT_HF)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "%s is not a Hugging Face folder; `linnet quantize' takes a GGUF file",
                       ln_checkpoint_path(checkpoint));
    ln_arena arena;
    ln_spec spec;
    ln_gguf_writer writer;
    ln_convert_plan plan = {.checkpoint = checkpoint, .spec = &spec, .err = err};
    ln_arena_init(&arena);
    ln_gguf_writer_init(&writer);
    ln_status status = ln_spec_read(checkpoint, &arena, &spec, err);
    if (status == LINNET_OK)
        status = ln_convert_check(&plan);
    if (status == LINNET_OK)
        status = ln_convert_plan_tensors(&plan);
    if (status == LINNET_OK)
        status = write_file(&plan, path, with_tokenizer, options, &writer);
    ln_gguf_writer_free(&writer);
    ln_convert_plan_free(&plan);
    ln_arena_free(&arena);
    return status;
}
