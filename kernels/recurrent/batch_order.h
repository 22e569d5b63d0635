/* batch_order.h - what the operators lstm, lstmp and gru have in common beside their arithmetic. */
#pragma once

#include "kernels/math/arrays/activation.h"
#include "kernels/math/sequences/recurrent.h"
#include "kernels/sequences/sequence.h"

/* The activations that a gate may have. */
#define TR_GATE_ACTIVATIONS \
    TR_ONE_OF({"sigmoid", TR_ACT_sigmoid}, {"tanh", TR_ACT_tanh}, {"relu", TR_ACT_relu}, {"identity", TR_ACT_identity})

/* A first state, [sequences, width]: one row for each sequence. NULL is fine. */
tr_status tr__check_first_state(const tr_run *io, int slot, int64_t sequences);
/* Its rows in the order of rank, and the way back. */
void      tr__state_to_ranks(void *ranked, const tr_tensor *state, const tr_batches *b);
void      tr__state_from_ranks(tr_tensor *state, const void *ranked, const tr_batches *b);
/* Rows of a tensor of sequences in batch order, and the way back. */
void      tr__rows_to_batches(void *batched, const tr_tensor *x, const tr_batches *b);
void      tr__rows_from_batches(tr_tensor *x, const void *batched, const tr_batches *b);
