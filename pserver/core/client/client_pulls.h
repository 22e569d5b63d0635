/* client_pulls.h - parameters from servers, for the other protocols of a trainer. */
#ifndef TR_PSERVER_CLIENT_PULLS_H
#define TR_PSERVER_CLIENT_PULLS_H

#include "pserver/core/client/client_requests.h"

/* Send the gathered pulls of this server. */
void tr__client_flush_pulls(tr_client *client, tr__stream *s);

#endif
