/* client_rows.h - rows of sparse tables, for the other protocols of a trainer. */
#pragma once

#include "pserver/core/client/client_requests.h"

/* At the set-up: send a server the first rows of a table. The client frees rows->data. */
void tr__client_write_first_rows(tr_client *client, tr__stream *s, const tr_client_pack *rows, uint64_t op);
