#include "model/convert_plan.h"

ln_status ln_convert_put_tokenizer(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    (void)plan;
    (void)writer;
    return LINNET_OK;
}
