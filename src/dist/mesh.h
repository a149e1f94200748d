/* Which part of a model a rank has. The ranks of a stage have the same layers: those that divide
 * attention count side by side, groups of these that repeat it behind one another, then stages. */
#ifndef LN_DIST_MESH_H
#define LN_DIST_MESH_H

#include <stddef.h>

/* Numbers are at least 1; of a mesh of no ranks all are 0. */
typedef struct ln_mesh {
    size_t n_tensor; /* tensor parallel: ranks that divide attention */
    size_t n_expert; /* expert parallel: so many times that, over all of which whole experts are
                        divided; 1: each expert is divided by columns */
    size_t n_stages; /* pipeline parallel: stages of layers, one behind the other */
    size_t rank;     /* of all */
} ln_mesh;

static inline size_t ln_mesh_in_stage(const ln_mesh *mesh) {
    size_t n = mesh->n_tensor * mesh->n_expert;
    return n > 0 ? n : 1;
}

static inline size_t ln_mesh_count(const ln_mesh *mesh) {
    return ln_mesh_in_stage(mesh) * mesh->n_stages;
}

static inline size_t ln_mesh_stage(const ln_mesh *mesh) {
    return mesh->rank / ln_mesh_in_stage(mesh);
}

static inline size_t ln_mesh_rank_in_stage(const ln_mesh *mesh) {
    return mesh->rank % ln_mesh_in_stage(mesh);
}

static inline size_t ln_mesh_tensor_rank(const ln_mesh *mesh) {
    return mesh->n_tensor > 0 ? mesh->rank % mesh->n_tensor : 0;
}

/* The first rank of the last stage, which has logits. */
static inline size_t ln_mesh_rank_of_logits(const ln_mesh *mesh) {
    return (mesh->n_stages - 1) * ln_mesh_in_stage(mesh);
}

#endif
