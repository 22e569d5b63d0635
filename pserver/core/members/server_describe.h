/* server_describe.h - texts for users: what a server waits for, and why it fails. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* Describe what the server waits for: "the gradients of step 17 of trainer 1, trainer 3"; "" for nothing. */
void tr__describe(const tr_server *server, char *out, size_t size);
/* The job fails because this peer has died, with a text about what this server waited for. */
void tr__describe_failure(tr_server *server, int peer, const char *how);
