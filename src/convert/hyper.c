/* Residual streams that mix (DeepSeek V4, GLM 5 Next, Hy 4), or are gated (Qwen 4). */
#include "convert/hyper.h"

#include "convert/metadata.h"

/* Weights of streams: `first` is the first of three roles, n_parts says what it makes. */
static ln_status weights(ln_convert_plan *plan, ln_tensor_id id, ln_role first, size_t n_parts) {
    size_t n = plan->spec->hyper.n, n_cols = n * plan->spec->dim;
    bool mixes = n_parts > 1 && plan->spec->hyper.n_rounds > 0;
    size_t n_rows = (n_parts + (mixes ? n : 0)) * n;
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, first), n_rows, n_cols));
    LN_TRY(ln_convert_vector(plan, ln_id_as(id, (ln_role)(first + 1)), n_rows, 0));
    return ln_convert_vector(plan, ln_id_as(id, (ln_role)(first + 2)), n_parts + mixes, 0);
}

/* Gates of streams: `norm` is the first of three roles. */
static ln_status gates(ln_convert_plan *plan, ln_tensor_id id, ln_role norm) {
    size_t width = plan->spec->hyper.n * plan->spec->dim, rank = plan->spec->hyper.low_rank;
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, norm), width));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, (ln_role)(norm + 1)), rank, width));
    return ln_convert_matrix(plan, ln_id_as(id, (ln_role)(norm + 2)), width, rank);
}

ln_status ln_convert_layer_hyper(ln_convert_plan *plan, ln_tensor_id id) {
    size_t n = plan->spec->hyper.n, width = n * plan->spec->dim;
    if (n == 0)
        return LINNET_OK;
    if (plan->spec->hyper.low_rank == 0) {
        LN_TRY(weights(plan, id, LN_ROLE_ATTENTION_HYPER, 2));
        return weights(plan, id, LN_ROLE_FFN_HYPER, 2);
    }
    LN_TRY(gates(plan, id, LN_ROLE_ATTENTION_HYPER_NORM));
    LN_TRY(gates(plan, id, LN_ROLE_FFN_HYPER_NORM));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_ATTENTION_HYPER), n, width));
    return ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_FFN_HYPER), n, width);
}

ln_status ln_convert_output_hyper(ln_convert_plan *plan) {
    ln_tensor_id id = {0};
    if (plan->spec->hyper.n == 0 || plan->spec->hyper.averages)
        return LINNET_OK;
    if (plan->spec->hyper.low_rank > 0)
        return gates(plan, id, LN_ROLE_OUTPUT_HYPER_NORM);
    return weights(plan, id, LN_ROLE_OUTPUT_HYPER, 1);
}

void ln_convert_put_hyper(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    const ln_spec *spec = plan->spec;
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {{"hyper_connection.count", spec->hyper.n},
                 {"hyper_connection.low_rank", spec->hyper.low_rank},
                 {"hyper_connection.sinkhorn_iterations", spec->hyper.n_rounds}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value > 0)
            ln_convert_put_number(plan, writer, sizes[i].name, sizes[i].value);
    if (spec->hyper.n == 0 || spec->hyper.low_rank > 0)
        return;
    ln_gguf_put_f32(writer, ln_convert_key_of(plan, "hyper_connection.epsilon").text,
                    spec->hyper.eps);
    if (spec->hyper.n_rounds == 0)
        ln_gguf_put_f32(writer, ln_convert_key_of(plan, "hyper_connection.magnitude").text,
                        spec->hyper.magnitude);
}
