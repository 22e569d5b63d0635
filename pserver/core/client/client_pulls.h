/* client_pulls.h - parameters from servers, for the other protocols of a trainer. */
#pragma once

#include "pserver/core/client/client_requests.h"

/* Send the gathered pulls of this server. */
void tr__client_flush_pulls(tr_client *client, tr__stream *s);
