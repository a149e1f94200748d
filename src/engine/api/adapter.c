/* linnet_engine_load_adapter and its like. */
#include "engine/api/options.h"
#include "engine/engine.h"
#include "model/adapter/file.h"

linnet_status linnet_engine_load_adapter(linnet_engine *engine, const char *name, const char *path,
                                         float scale, linnet_error *err) {
    if (engine->ranks.rank > 0)
        return ln_fail(err, LINNET_ERR_STATE, "rank 0 loads adapters, and this is rank %zu",
                       engine->ranks.rank);
    return ln_adapters_load(&engine->adapters, name, path, scale, err);
}

linnet_status linnet_engine_unload_adapter(linnet_engine *engine, const char *name,
                                           linnet_error *err) {
    return ln_adapters_unload(&engine->adapters, name, err);
}

bool linnet_engine_get_adapter(linnet_engine *engine, size_t index, linnet_adapter *adapter) {
    linnet_adapter full;
    if (!ln_adapters_get(&engine->adapters, index, &full))
        return false;
    ln_options_give(&full, sizeof full, adapter);
    return true;
}

linnet_status linnet_adapter_read_rank(const char *path, size_t *rank, linnet_error *err) {
    ln_adapter_file file;
    *rank = 0;
    LN_TRY(ln_adapter_file_open(path, &file, err));
    *rank = file.rank;
    ln_adapter_file_close(&file);
    return LINNET_OK;
}
