/* server_serving.h - SERVING: a server tells a rank that it serves, and which updates and steps its state has. */
#pragma once

#include "pserver/core/updates/server_state.h"

void tr__serving_send(tr_server *server, int rank);
void tr__serving_send_to_all(tr_server *server);
