/* Which part of a model a rank has. Ranks that divide the layers of a stage count side by side, the
 * stages behind one another. */
#ifndef LN_DIST_MESH_H
#define LN_DIST_MESH_H

#include <stddef.h>

/* Numbers are at least 1; of a mesh of no ranks all are 0. */
typedef struct ln_mesh {
    size_t n_tensor; /* ranks that divide each layer */
    size_t n_stages; /* of layers, one behind the other */
    size_t rank;     /* of all */
} ln_mesh;

static inline size_t ln_mesh_in_stage(const ln_mesh *mesh) {
    return mesh->n_tensor;
}

static inline size_t ln_mesh_count(const ln_mesh *mesh) {
    return ln_mesh_in_stage(mesh) * mesh->n_stages;
}

static inline size_t ln_mesh_stage(const ln_mesh *mesh) {
    return mesh->n_stages > 1 ? mesh->rank / ln_mesh_in_stage(mesh) : 0;
}

static inline size_t ln_mesh_rank_in_stage(const ln_mesh *mesh) {
    return mesh->n_stages > 0 ? mesh->rank % ln_mesh_in_stage(mesh) : 0;
}

/* The first rank of the last stage, which has logits. */
static inline size_t ln_mesh_rank_of_logits(const ln_mesh *mesh) {
    return (mesh->n_stages - 1) * ln_mesh_in_stage(mesh);
}

#endif
