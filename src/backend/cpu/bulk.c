#include "backend/cpu/bulk.h"

#include <stdatomic.h>

/* Preparing what lies in n_pages huge pages from `first` on. */
typedef struct walk {
    const ln_bulk *bulk;
    const ln_cpu_preparer *preparer;
    uintptr_t first;
    size_t n_pages;
    atomic_size_t failed; /* a job whose file could not be read, plus 1 */
} walk;

static bool is_vector(const ln_weight_request *request) {
    const ln_weight_source *source = &request->sources[0];
    return request->as_f32 && request->n_sources == 1 && source->tensor->map != NULL &&
           source->packed.kind == LN_PACKED_NONE;
}

/* Panels that are read at once; 0: the buffer is too small. */
static size_t count_read(const ln_cpu_preparer *preparer, size_t row_bytes) {
    return row_bytes > 0 ? preparer->buffer_bytes / (LN_PANEL_ROWS * row_bytes) : 0;
}

bool ln_bulk_can(const ln_cpu_preparer *preparer, const ln_weight_request *request, ln_pack pack) {
    size_t row_bytes;
    if (pack == LN_PACK_NONE)
        return is_vector(request);
    return ln_cpu_can_read(request) &&
           ln_dtype_row_bytes(ln_weight_source_dtype(&request->sources[0]), request->n_cols,
                              &row_bytes) &&
           count_read(preparer, row_bytes) > 0;
}

/* The first unit of a job that begins at or behind an address. */
static size_t unit_at(const ln_bulk_job *job, uintptr_t address) {
    uintptr_t memory = (uintptr_t)job->memory;
    size_t unit = address > memory ? (address - memory - 1) / job->unit_bytes + 1 : 0;
    return unit < job->n_units ? unit : job->n_units;
}

/* Units [begin, end); false: their file cannot be read. */
static bool prepare(const ln_bulk_job *job, size_t begin, size_t end, size_t n_read,
                    uint8_t *buffer) {
    if (job->vector.n_sources > 0) {
        ln_weight_copy_rows(&job->vector, 0, job->vector.sources[0].n_rows,
                            job->vector.n_cols * sizeof(float), job->memory);
        return true;
    }
    for (size_t panel = begin; panel < end; panel += n_read) {
        size_t n = end - panel < n_read ? end - panel : n_read;
        if (!ln_panel_source_read(&job->panels, panel, n, buffer,
                                  job->memory + panel * job->unit_bytes))
            return false;
    }
    return true;
}

static void prepare_page(walk *w, uintptr_t page, uint8_t *buffer) {
    for (size_t i = 0; i < w->bulk->n_jobs; i++) {
        const ln_bulk_job *job = &w->bulk->jobs[i];
        size_t begin = unit_at(job, page), end = unit_at(job, page + LN_HUGE_PAGE_BYTES);
        if (begin < end &&
            !prepare(job, begin, end, count_read(w->preparer, job->panels.row_bytes), buffer))
            atomic_store(&w->failed, i + 1);
    }
}

static void prepare_pages(void *context, size_t worker) {
    walk *w = context;
    uint8_t *buffer = w->preparer->buffers + worker * w->preparer->buffer_bytes;
    for (size_t page; (page = ln_pool_take(w->preparer->pool)) < w->n_pages;)
        prepare_page(w, w->first + page * LN_HUGE_PAGE_BYTES, buffer);
}

static uintptr_t end_of(const ln_bulk_job *job) {
    return (uintptr_t)job->memory + job->unit_bytes * job->n_units;
}

ln_status ln_bulk_finish(ln_bulk *bulk, const ln_cpu_preparer *preparer, ln_error *err) {
    if (bulk->n_jobs == 0)
        return LINNET_OK;
    uintptr_t begin = (uintptr_t)bulk->jobs[0].memory, end = end_of(&bulk->jobs[bulk->n_jobs - 1]);
    walk w = {.bulk = bulk, .preparer = preparer};
    w.first = begin / LN_HUGE_PAGE_BYTES * LN_HUGE_PAGE_BYTES;
    w.n_pages = (end - w.first + LN_HUGE_PAGE_BYTES - 1) / LN_HUGE_PAGE_BYTES;
    ln_pool_run(preparer->pool, prepare_pages, &w);
    bulk->n_jobs = 0;
    size_t failed = atomic_load(&w.failed);
    if (failed == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_IO, "tensor %s: its file cannot be read, or shrank",
                   bulk->jobs[failed - 1].name);
}

/* Whether a job may follow what was added: not far behind it. */
static bool fits(const ln_bulk *bulk, const ln_bulk_job *job) {
    if (bulk->n_jobs == 0)
        return true;
    uintptr_t end = end_of(&bulk->jobs[bulk->n_jobs - 1]), memory = (uintptr_t)job->memory;
    return bulk->n_jobs < LN_BULK_JOBS && end - (uintptr_t)bulk->jobs[0].memory < LN_BULK_BYTES &&
           memory >= end && memory - end < LN_HUGE_PAGE_BYTES;
}

ln_status ln_bulk_add(ln_bulk *bulk, const ln_cpu_preparer *preparer,
                      const ln_weight_request *request, ln_pack pack, void *memory,
                      ln_weight *weight, ln_error *err) {
    ln_bulk_job job = {.name = request->sources[0].tensor->name, .memory = memory};
    LN_TRY(ln_cpu_describe_weight(request, pack, memory, weight, err));
    if (pack == LN_PACK_NONE) {
        job.vector = *request;
        job.unit_bytes = weight->n_rows * weight->row_bytes;
        job.n_units = 1;
    } else {
        LN_TRY(ln_cpu_panel_source(request, pack, preparer->packer, &job.panels, err));
        job.unit_bytes = job.panels.panel_bytes;
        job.n_units = ln_panel_source_bytes(&job.panels) / job.unit_bytes;
    }
    if (!fits(bulk, &job))
        LN_TRY(ln_bulk_finish(bulk, preparer, err));
    if (job.unit_bytes > 0)
        bulk->jobs[bulk->n_jobs++] = job;
    return LINNET_OK;
}
