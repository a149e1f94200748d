/* Weights that loading puts off and prepares together: the bytes of those that are prepared one by
 * one, at any number of threads, over several huge pages, in more than one bulk. */
#include "matrix.h"

#include <unistd.h>

#include "backend/cpu/bulk.h"
#include "backend/registry.h"
#include "base/file.h"

enum { COLS = 512, N_MATRICES = 8, N_VECTORS = LN_BULK_JOBS + 6, N = N_MATRICES + N_VECTORS };

static const size_t n_rows[N_MATRICES] = {16, 3000, 75, 5000, 2, 1, 2500, 33};
static const ln_dtype types[N_MATRICES] = {LN_DTYPE_Q4_0, LN_DTYPE_BF16, LN_DTYPE_Q6_K,
                                           LN_DTYPE_BF16, LN_DTYPE_F16,  LN_DTYPE_Q8_0,
                                           LN_DTYPE_BF16, LN_DTYPE_Q4_K};

/* Matrices with vectors between them, one behind the other in a file. */
typedef struct model {
    char path[32];
    ln_file_map map;
    ln_tensor tensors[N];
    size_t bytes;
} model;

static bool is_matrix(size_t i) {
    return i % 9 == 4 && i / 9 < N_MATRICES;
}

static void make_model(model *m) {
    strcpy(m->path, "/tmp/linnet-bulk-XXXXXX");
    int fd = mkstemp(m->path);
    assert_true(fd >= 0);
    m->bytes = 0;
    for (size_t i = 0; i < N; i++) {
        ln_tensor *tensor = &m->tensors[i];
        *tensor = (ln_tensor){.dtype = LN_DTYPE_F32, .n_dims = 1, .dims = {COLS}};
        tensor->name = is_matrix(i) ? "matrix" : "vector";
        size_t row_bytes = COLS * sizeof(float), rows = 1;
        if (is_matrix(i)) {
            rows = n_rows[i / 9];
            *tensor = (ln_tensor){.name = "matrix", .dtype = types[i / 9], .n_dims = 2};
            tensor->dims[0] = rows, tensor->dims[1] = COLS;
            assert_true(ln_dtype_row_bytes(tensor->dtype, COLS, &row_bytes));
        }
        tensor->bytes = rows * row_bytes;
        tensor->file_offset = m->bytes;
        uint8_t *data = malloc(tensor->bytes);
        assert_non_null(data);
        for (size_t at = 0; at < tensor->bytes; at++)
            data[at] = (uint8_t)(draws++ * 0x9e3779b97f4a7c15u >> 56);
        assert_int_equal(write(fd, data, tensor->bytes), tensor->bytes);
        tensor->data = data;
        m->bytes += tensor->bytes;
    }
    close(fd);
    assert_int_equal(ln_file_map_open(&m->map, m->path, NULL), LINNET_OK);
}

static void free_model(model *m) {
    ln_file_map_close(&m->map);
    unlink(m->path);
    for (size_t i = 0; i < N; i++)
        free((void *)m->tensors[i].data);
}

/* All weights behind one another but the last ones, which begin some huge pages further on. */
typedef struct loaded {
    ln_backend *backend;
    uint8_t *memory;
    size_t bytes;
} loaded;

static ln_weight_request request_of(const ln_tensor *tensor) {
    bool is_vector = tensor->n_dims == 1;
    size_t rows = (size_t)tensor->dims[0];
    return (ln_weight_request){.n_sources = 1,
                               .sources = {{.tensor = tensor, .n_rows = rows, .run_rows = rows}},
                               .n_cols = is_vector ? 1 : COLS,
                               .as_f32 = is_vector};
}

static ln_status load(loaded *l, model *m, size_t n_threads, bool from_file, ln_error *err) {
    ln_backend_options options = {.isa = "auto", .n_threads = n_threads};
    ln_step_limits limits = {.max_tokens = 512,
                             .max_seqs = 8,
                             .max_ctx = 64,
                             .max_width = COLS,
                             .max_head_dim = 64,
                             .max_heads = 8};
    size_t bytes[N], at = 0;
    assert_int_equal(ln_backend_create("cpu", &options, &l->backend, NULL), LINNET_OK);
    const ln_backend_vtable *vtable = l->backend->vtable;
    assert_int_equal(vtable->reserve_scratch(l->backend, &limits, NULL), LINNET_OK);
    l->bytes = 0;
    for (size_t i = 0; i < N; i++) {
        ln_weight_request request = request_of(&m->tensors[i]);
        assert_int_equal(vtable->plan_weight(l->backend, &request, &bytes[i], NULL), LINNET_OK);
        l->bytes += (bytes[i] + 63) / 64 * 64;
    }
    l->bytes += 3 * LN_HUGE_PAGE_BYTES;
    l->memory = calloc(1, l->bytes + 64);
    assert_non_null(l->memory);
    uint8_t *memory = l->memory + 64 - (uintptr_t)l->memory % 64;
    for (size_t i = 0; i < N; i++) {
        ln_weight weight;
        ln_weight_request request = request_of(&m->tensors[i]);
        m->tensors[i].map = from_file ? &m->map : NULL;
        at += i == N - 3 ? 3 * LN_HUGE_PAGE_BYTES : 0;
        ln_status status = vtable->prepare_weight(l->backend, &request, memory + at, &weight, err);
        if (status != LINNET_OK)
            return status;
        assert_true(weight.data == memory + at);
        at += (bytes[i] + 63) / 64 * 64;
    }
    return vtable->finish_weights(l->backend, err);
}

static void unload(loaded *l) {
    l->backend->vtable->destroy(l->backend);
    free(l->memory);
}

static const uint8_t *begin_of(const loaded *l) {
    return l->memory + 64 - (uintptr_t)l->memory % 64;
}

static void bytes_are_those_of_one_by_one(void **state) {
    (void)state;
    static model m;
    make_model(&m);
    loaded want;
    assert_int_equal(load(&want, &m, 1, false, NULL), LINNET_OK);
    for (size_t threads = 1; threads <= 3; threads++) {
        loaded got;
        assert_int_equal(load(&got, &m, threads, true, NULL), LINNET_OK);
        assert_int_equal(got.bytes, want.bytes);
        assert_true(got.bytes > 6 * LN_HUGE_PAGE_BYTES);
        assert_memory_equal(begin_of(&got), begin_of(&want), got.bytes - 64);
        unload(&got);
    }
    unload(&want);
    free_model(&m);
}

static void a_cut_file_is_an_error(void **state) {
    (void)state;
    static model m;
    ln_error err = {0};
    loaded l;
    make_model(&m);
    size_t last = 9 * (N_MATRICES - 1) + 4;
    assert_int_equal(truncate(m.path, (off_t)(m.tensors[last].file_offset + 8)), 0);
    /* vectors behind it are read where they are mapped */
    for (size_t i = last + 1; i < N; i++)
        m.tensors[i].file_offset = 0;
    assert_int_equal(load(&l, &m, 2, true, &err), LINNET_ERR_IO);
    assert_string_equal(err.message, "tensor matrix: its file cannot be read, or shrank");
    unload(&l);
    free_model(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_one_by_one),
        cmocka_unit_test(a_cut_file_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
